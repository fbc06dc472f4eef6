"use strict";
(() => {
  const REACH = 30;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  let shown = null;

  const hide = () => {
    tip.hidden = true;
    shown?.classList.remove("shown");
    shown = null;
  };

  /* A finger covers more than a point: the nearest mark is meant, whichever was hit. */
  const nearest = (chart, x, y) => {
    let found = null;
    let least = REACH;
    for (const mark of chart.querySelectorAll(".role-mark [aria-label]")) {
      const box = mark.getBoundingClientRect();
      const across = Math.max(box.left - x, 0, x - box.right);
      const down = Math.max(box.top - y, 0, y - box.bottom);
      const middle = Math.hypot((box.left + box.right) / 2 - x, (box.top + box.bottom) / 2 - y);
      const far = Math.hypot(across, down) + middle / 1000;
      if (far < least) {
        least = far;
        found = mark;
      }
    }
    return found;
  };

  const show = (mark) => {
    hide();
    shown = mark;
    mark.classList.add("shown");
    tip.textContent = mark.getAttribute("aria-label");
    tip.hidden = false;
    const box = mark.getBoundingClientRect();
    const left = (box.left + box.right) / 2 - tip.offsetWidth / 2;
    const above = box.top - tip.offsetHeight - 10;
    tip.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${above > 8 ? above : box.top + 24}px`;
  };

  const point = (event) => {
    const chart = event.target.closest?.("svg.chart");
    const mark = chart && nearest(chart, event.clientX, event.clientY);
    if (!mark) hide();
    else if (mark !== shown) show(mark);
  };

  document.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(event));
  document.addEventListener("click", point);
  document.addEventListener("scroll", hide, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());

  /* Lists of runs are folded up: who follows a link into one sees it. */
  const unfold = () => {
    const place = document.getElementById(location.hash.slice(1));
    const folded = place?.closest("details:not([open])");
    if (folded) {
      folded.open = true;
      place.scrollIntoView();
    }
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
