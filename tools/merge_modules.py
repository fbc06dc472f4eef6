"""mergemods.py ROOT PLAN [--dry]: merges modules as PLAN says and rewrites every reference. Run with the tree's .venv python.

PLAN:  '@ package.prefix' sets the prefix;  'target: a b c' merges modules a b c (in this order when independent) into target;
       'rename module old new' renames a top-level private name in a source module before merging.  '#' comments.
"""
import ast, re, sys, subprocess, io, tokenize
from pathlib import Path

root = Path(sys.argv[1]).resolve(); plan = Path(sys.argv[2]); dry = "--dry" in sys.argv
sys.path.insert(0, str(root)); 
from tools.compiled import all_modules, interpreted, pure_floors
SRC = root / "src"
mods = all_modules(root)
aside = interpreted(mods, pure_floors(root))
floors = pure_floors(root)
groups = {}; renames = {}; prefix = ""
for raw in plan.read_text().splitlines():
    line = raw.split("#")[0].strip()
    if not line: continue
    if line.startswith("@"): prefix = line[1:].strip(); continue
    if line.startswith("rename "):
        _, m, o, n = line.split(); renames.setdefault(f"{prefix}.{m}", []).append((o, n)); continue
    t, _, s = line.partition(":")
    full = lambda x: x[1:] if x.startswith("/") else f"{prefix}.{x}"   # '/a.b.c' is absolute
    groups[full(t.strip())] = [full(x) for x in s.split()]
errors = []; warnings = []
where = {}
for t, ss in groups.items():
    for s in ss:
        if s in where: errors.append(f"{s} is in two groups")
        where[s] = t
        if s not in mods: errors.append(f"no module {s}")
    if t in mods and t not in ss: errors.append(f"{t} exists and is not among its sources")
if errors: print("\n".join(errors)); sys.exit(2)
for t, ss in groups.items():
    kinds = {s: ("pure" if s.startswith(tuple(f + "." for f in floors)) else "") and ("interp" if s in aside else "comp") for s in ss}
    if len({k for k in kinds.values()}) > 1:
        inter = [s for s in ss if kinds[s] == "interp"]; comp = [s for s in ss if kinds[s] == "comp"]
        warnings.append(f"{t}: mixes compiled {[c.split('.')[-1] for c in comp]} with interpreted {[(c.split('.')[-1], aside[c]) for c in inter]}")

def resolve_relative(text, module, is_pkg=False):
    base = module.split(".") if is_pkg else module.split(".")[:-1]
    def sub(m):
        dots, rest = m.group(2), m.group(3) or ""
        parts = base[: len(base) - (len(dots) - 1)]
        return f"{m.group(1)}from {'.'.join(parts + ([rest] if rest else []))} import"
    return re.sub(r"(?m)^(\s*)from (\.+)([\w.]*) import", sub, text)

def rename_tokens(text, pairs):
    table = dict(pairs); out = []; last = None
    lines = text.splitlines(keepends=True)
    toks = list(tokenize.generate_tokens(io.StringIO(text).readline))
    edits = []
    prev = None
    for tok in toks:
        if tok.type == tokenize.NAME and tok.string in table and not (prev and prev.string == "."):
            edits.append((tok.start, tok.end, table[tok.string]))
        if tok.type not in (tokenize.NL, tokenize.COMMENT): prev = tok
    for (r, c0), (_, c1), new in reversed(edits):
        l = lines[r - 1]; lines[r - 1] = l[:c0] + new + l[c1:]
    return "".join(lines)

def top_names(tree):
    out = {}
    for n in tree.body:
        if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)): out[n.name] = n.lineno
        elif isinstance(n, ast.Assign):
            for tg in n.targets:
                for x in ast.walk(tg):
                    if isinstance(x, ast.Name): out[x.id] = n.lineno
        elif isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name): out[n.target.id] = n.lineno
        elif hasattr(ast, "TypeAlias") and isinstance(n, ast.TypeAlias): out[n.name.id] = n.lineno
    return out

def imported(tree):
    """name -> what it is, of module-level imports"""
    out = {}
    for n in ast.walk(tree):
        if isinstance(n, ast.ImportFrom):
            for a in n.names: out[a.asname or a.name] = f"{n.module}.{a.name}"
        elif isinstance(n, ast.Import):
            for a in n.names: out[a.asname or a.name.split(".")[0]] = a.asname and a.name or a.name.split(".")[0]
    return out

texts = {}
for s in where:
    text = resolve_relative(mods[s].read_text(), s)
    if s in renames: text = rename_tokens(text, renames[s])
    texts[s] = text

merged = {}
for t, ss in groups.items():
    trees = {s: ast.parse(texts[s]) for s in ss}
    names = {s: top_names(trees[s]) for s in ss}
    seen = {}; twice = set()
    for s in ss:
        for n in names[s]:
            if n in ("__all__", "log", "LOG"): pass
            if n in seen:
                get = lambda m: next((ast.unparse(x) for x in trees[m].body if isinstance(x, (ast.Assign, ast.AnnAssign)) and x.lineno == names[m][n]), None)
                if get(s) is not None and get(s) == get(seen[n]): twice.add((s, names[s][n])); continue
                errors.append(f"{t}: both {seen[n]} and {s} define {n}")
            seen[n] = s
    imps = {}
    for s in ss:
        for n, what in imported(trees[s]).items():
            mod = what.rsplit(".", 1)[0]
            if mod in ss: 
                if what.rsplit(".", 1)[1] != n: errors.append(f"{t}: {s} imports {what} as {n}")
                continue
            if what in ss: errors.append(f"{t}: {s} imports the module {what}"); continue
            if n in seen: errors.append(f"{t}: {s} imports {what}, {seen[n]} defines {n}")
            if imps.setdefault(n, what) != what: errors.append(f"{t}: {n} is {imps[n]} and {what} ({s})")
    # order: dependencies at run time first
    deps = {s: set() for s in ss}
    for s in ss:
        for n in trees[s].body:
            if isinstance(n, ast.ImportFrom) and n.module in ss: deps[s].add(n.module)
    order = []
    pending = list(ss)
    while pending:
        for s in pending:
            if deps[s] <= set(order): order.append(s); pending.remove(s); break
        else:
            errors.append(f"{t}: cycle among {pending}"); order += pending; break
    head, checking, bodies, docs = [], [], [], {}
    for s in order:
        lines = texts[s].splitlines(keepends=True); drop = set()
        body = trees[s].body
        for i, n in enumerate(body):
            span = range(n.lineno - 1, n.end_lineno)
            if i == 0 and isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) and isinstance(n.value.value, str):
                docs[s] = n.value.value; drop |= set(span)
            elif (s, n.lineno) in twice: drop |= set(span)
            elif isinstance(n, (ast.Import, ast.ImportFrom)):
                drop |= set(span)
                if not (isinstance(n, ast.ImportFrom) and n.module in ss): head.append("".join(lines[n.lineno - 1:n.end_lineno]))
            elif isinstance(n, ast.If) and ast.unparse(n.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                drop |= set(span)
                for m in n.body:
                    if not (isinstance(m, ast.ImportFrom) and m.module in ss): checking.append("".join(lines[m.lineno - 1:m.end_lineno]))
                if n.orelse: errors.append(f"{s}: else of TYPE_CHECKING")
        # imports of siblings inside functions
        for n in ast.walk(trees[s]):
            if isinstance(n, ast.ImportFrom) and n.module in ss and n not in body and not (set(range(n.lineno-1, n.end_lineno)) & drop):
                errors.append(f"{t}: {s}:{n.lineno} imports {n.module} inside a function")
        rest = "".join(l for i, l in enumerate(lines) if i not in drop).strip("\n")
        bodies.append(rest)
    main = t if t in ss else ss[0]
    doc = docs.get(main, "")
    others = [docs[s] for s in ss if s != main and s in docs]
    text = doc.strip() + "".join("\n\n" + o.strip() for o in others)
    out = f'"""{text}' + ("\n" if "\n" in text else "") + '"""\n\n' + "".join(head) + "\n"
    if checking: out += "if TYPE_CHECKING:\n" + "".join(checking) + "\n"
    out += "\n\n\n".join(b for b in bodies if b) + "\n"
    # constants/types used at module level of a later body? python import will tell
    try: ast.parse(out)
    except SyntaxError as e: errors.append(f"{t}: {e}")
    merged[t] = out

moved = {s: t for s, t in where.items() if s != t}
# references in all files
files = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
files = [root / f for f in files if f and f.endswith((".py", ".toml", ".md", ".ini", "Makefile", ".txt", ".html", ".cfg", ".in")) and not f.startswith(("docs/history/", "CHANGELOG", "requirements/"))]
pattern = re.compile(r"(?<![\w.])(" + "|".join(sorted(map(re.escape, moved), key=len, reverse=True)) + r")(?![\w])") if moved else None
paths = {}
for s, t in moved.items():
    a = s.replace(".", "/") + ".py"; b = t.replace(".", "/") + ".py"
    pa, pb = a.split("/"), b.split("/")
    for k in range(len(pa) - 1):
        old = "/".join(pa[k:]);
        # new path with the same number of leading parts cut
        new = "/".join(pb[k:]) if pa[:k] == pb[:k] else b
        if old.count("/") >= 1: paths[old] = new
ppat = re.compile(r"(?<![\w/])(?:src/)?(" + "|".join(sorted(map(re.escape, paths), key=len, reverse=True)) + r")(?!\w)") if paths else None
def ref(text, module=None, is_pkg=False):
    new = pattern.sub(lambda m: moved[m.group(1)], text)
    if ppat: new = ppat.sub(lambda m: m.group(0).replace(m.group(1), paths[m.group(1)]), new)
    return new
written = {}
srcset = {mods[s].resolve() for s in where}
for f in files:
    if f.resolve() in srcset or not f.exists(): continue
    text = f.read_text(); old = text
    if f.suffix == ".py":
        if SRC in f.parents:
            rel = f.relative_to(SRC).with_suffix("")
            is_pkg = rel.name == "__init__"
            module = ".".join(rel.parts[:-1] if is_pkg else rel.parts)
        else:
            rel = f.relative_to(root).with_suffix(""); is_pkg = rel.name == "__init__"; module = ".".join(rel.parts[:-1] if is_pkg else rel.parts)
        if re.search(r"(?m)^\s*from \.", text):
            cand = resolve_relative(text, module, is_pkg)
            if pattern.search(cand): text = cand
        try: tree = ast.parse(text)
        except SyntaxError: tree = ast.Module([], [])
        for n in ast.walk(tree):
            if isinstance(n, ast.ImportFrom) and n.module:
                for a in n.names:
                    m = f"{n.module}.{a.name}"
                    if m in moved:
                        new = moved[m]; tail = new.rsplit(".", 1)[1]
                        used = {x.id for x in ast.walk(tree) if isinstance(x, ast.Name)} | {y.arg for y in ast.walk(tree) if isinstance(y, ast.arg)} | {y.asname or y.name for z in ast.walk(tree) if isinstance(z, (ast.Import, ast.ImportFrom)) for y in z.names}
                        if new.rsplit(".", 1)[0] != n.module or a.asname or (tail in used and f"{n.module}.{tail}" != imported(tree).get(tail)):
                            errors.append(f"{f.relative_to(root)}:{n.lineno}: imports the module {m} itself, to be {tail}")
                        else: text = rename_tokens(text, [(a.name, tail)])
    text = ref(text)
    if text != old: written[f] = text
for t in merged: merged[t] = ref(merged[t])
for w in warnings: print("warning:", w)
for t in merged:
    n = merged[t].count("\n")
    if n > 420: print(f"warning: {t} has {n} lines")
if errors: print("\n".join(errors)); print(len(errors), "errors"); sys.exit(1)
before = len(mods); print(f"{before} modules -> {before - len(where) + len(merged)}; {len(written)} other files rewritten")
if dry: sys.exit(0)
for s in where:
    if s not in merged: mods[s].unlink()
for t, text in merged.items():
    p = SRC / (t.replace(".", "/") + ".py"); p.parent.mkdir(parents=True, exist_ok=True); p.write_text(text)
for f, text in written.items(): f.write_text(text)
ruff = str(root / ".venv/bin/ruff")
subprocess.run([ruff, "check", "--fix", "-q", "--select", "I,F401,F811", "src", "tests", "benchmarks", "tools"], cwd=root)
subprocess.run([ruff, "format", "-q", "src", "tests", "benchmarks", "tools"], cwd=root)
