"""Rows of every shape."""

from hypothesis import strategies as st

from resprout.trace.schema import Row

_texts = st.text(max_size=8)
_int32 = st.integers(-(2**31), 2**31 - 1)
_int64 = st.integers(-(2**63), 2**63 - 1)


def rows() -> st.SearchStrategy[Row]:
    maybe = st.none
    return st.builds(
        Row,
        time_us=_int64,
        node=_texts,
        kind=st.sampled_from(("publish", "deliver", "note")),
        publisher=maybe() | _texts,
        incarnation=maybe() | _int32,
        stream=maybe() | st.sampled_from(("ordered", "eventual")),
        seq=maybe() | _int64,
        topic=maybe() | _texts,
        keys=maybe() | st.lists(_texts, max_size=3).map(tuple),
        guarantee=maybe() | _texts,
        attributes=maybe() | st.dictionaries(_texts, _texts, max_size=3),
        position=maybe() | _int64,
        receipt=maybe() | _texts,
        filter=maybe() | _texts,
        where=maybe() | _texts,
        tseq=maybe() | _int64,
        hops=maybe() | _int32,
        metadata_bytes=maybe() | _int32,
        payload_bytes=maybe() | _int32,
        detail=maybe() | _texts,
    )
