"""Chord: members on a ring of numbers, each of which owns the keys up to its own.

Stoica and others, "Chord: a scalable peer-to-peer lookup service" (2001), as the second phase of seed 004 has it, with
the rules that Zave showed to be needed ("How to make Chord correct", 2015) and the correction S3 of the seed. The
stack `scribe` stands on it.

*The ring.* A member's number is the SHA-256 of where it listens. Its *successors* are the next few behind it, the first
of which is the ring; its *predecessor* is the one before it. A key belongs to the first member at or behind it.

*Joining.* Whoever joins looks up its own number by a contact, asks the member that it finds for its successors, and is
a member with a whole list; not before, as in the original, with a single successor.

*Stabilising.* Now and then a member asks its first successor who precedes it and who follows it, and takes over the
list. If somebody stands between, that one is asked, too, and taken for the first successor only when it has answered:
it may be dead. Whoever is asked learns by that of a member before it.

*Failing.* Whoever cannot be reached is struck from all lists; the next successor takes over. That holds as long as one
of any member's successors lives: with r of them, less than r neighbours on the ring may fail before the ring is
stabilised again. A ring has more than r members, or all of them in every list.

*Lookups.* A question goes on to the closest member before its key that is known here, a finger or a successor, never to
the member itself (S3); whoever finds the key between itself and its first successor answers. Finger i is the owner of
the number 2^i behind the member (S3: not of i), so each step halves what is left. Who has no predecessor, which is not
an error (S3), calls no key its own.

*Departures.* To be asked is to be notified, one message for two. Whoever gets a nearer predecessor says so to the one
before, so that many that join in one place are in order soon. A finger that fails is struck out and looked up again
in its turn.
"""
