"""What a broker says of itself to people and monitors."""

import msgspec

from resprout.stacks.status import MemberSeen, RepairSeen, StackStatus
from resprout_lab.ginger.core import GingerCore
from resprout_lab.ginger.tree import Tree


def status_of(core: GingerCore, tree: Tree) -> StackStatus:
    view, parent = core.view, core.parent
    parents = {**view.parents, **dict.fromkeys(core.children, core.name)}
    known = dict.fromkeys([*core.links, *view.parents, *[contact.name for contact in view.line]])
    known.pop(core.name, None)
    return StackStatus(
        serving=tree.is_settled,
        parent=parent.name if parent is not None else None if core.is_root else msgspec.UNSET,
        neighbours=tuple(core.links),
        members=tuple(
            [
                MemberSeen(
                    name,
                    core.peers.lives.get(name, msgspec.UNSET),
                    view.addresses.get(name, msgspec.UNSET),
                    parents.get(name, msgspec.UNSET),
                    name in core.broken,
                )
                for name in known
                if name not in core.peers.dead or name in core.broken
            ]
        ),
        silent=tuple([name for name in core.links if core.peers.is_silent(name)]),
        repairs=tuple([RepairSeen(tuple(repair.dead), core.name) for repair in tree.leader.repairs]),
        log_bundles=len(core.log),
    )
