"""The columns of `trace.schema` for Arrow, in a file of their own: whoever only makes rows, as processes with clients
do, starts without Arrow."""

from typing import Final

import pyarrow as pa

ARROW_SCHEMA: Final = pa.schema(
    [
        pa.field("time_us", pa.int64(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("publisher", pa.string()),
        pa.field("incarnation", pa.int32()),
        pa.field("stream", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("keys", pa.list_(pa.string())),
        pa.field("guarantee", pa.string()),
        pa.field("attributes", pa.map_(pa.string(), pa.string())),
        pa.field("position", pa.int64()),
        pa.field("receipt", pa.string()),
        pa.field("filter", pa.string()),
        pa.field("where", pa.string()),
        pa.field("tseq", pa.int64()),
        pa.field("hops", pa.int32()),
        pa.field("metadata_bytes", pa.int32()),
        pa.field("payload_bytes", pa.int32()),
        pa.field("detail", pa.string()),
    ]
)
