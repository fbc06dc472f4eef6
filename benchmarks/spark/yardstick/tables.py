"""The tables that the rules are asked of: lives, publications, deliveries, subscriptions, and what is due to whom.

`row` is the place of a row in its run, as in the judge; a life, a publication and a topic each have one number over all
runs.
"""

from typing import Final

import duckdb  # type: ignore[import-not-found]  # of the benchmarks' own environment

NEVER: Final = 1 << 62

_ROWS: Final = """
create temp table files as
select row_number() over (order by run, file_name) as file_no, *, sum(num_rows) over (
    partition by run order by file_name rows between unbounded preceding and 1 preceding) as rows_before
from (select file_name, num_rows, regexp_extract(file_name, '^(.*)/[^/]*$', 1) as run
      from parquet_file_metadata($files));

create temp table runs as select run, row_number() over (order by run) as run_no, sum(num_rows) as rows
from files group by run;

create temp view rows as
select run_no, coalesce(rows_before, 0) + file_row_number as row, p.* exclude (filename, file_row_number)
from read_parquet($files, filename = true, file_row_number = true, hive_partitioning = false) p
join files on filename = file_name join runs using (run);
"""

_LIVES: Final = """
create temp table events as
select * from rows where kind not in ('publish', 'deliver', 'receipt');

create temp table lives as
with ends as (
    select run_no, node, row from events where kind in ('crash', 'leave')
), clients as (
    select distinct run_no, node from rows where kind in ('publish', 'deliver', 'subscribe')
), bounds as (
    select run_no, node, row from ends semi join clients using (run_no, node) union all
    select run_no, node, -1 from clients
)
select row_number() over (order by run_no, node, row) as life, run_no, node, row as begin_row,
       lead(row, 1, {never}) over (partition by run_no, node order by row) as end_row
from bounds;
"""

_PUBLICATIONS: Final = """
create temp table all_publications as
select row_number() over (order by p.run_no, p.row) as number, p.run_no, p.row, life, end_row = {never} as correct,
       p.node, publisher, incarnation, stream, seq, stream = 'ordered' as ordered, topic,
       coalesce(keys, []) as keys, guarantee, row_number() over (
           partition by p.run_no, publisher, incarnation, stream, seq order by p.row) > 1 as repeated
from rows p join lives l on p.run_no = l.run_no and p.node = l.node and p.row > begin_row and p.row < end_row
where kind = 'publish';

create temp view publications as select * from all_publications where not repeated;

create temp table pairs as
with named as (
    select number, run_no, guarantee = 'total' as total,
           case when contains(key, '#') then key else topic || '#' || key end as pair_name
    from (select number, run_no, guarantee, topic, unnest(keys) as key from publications)
)
select distinct number, total, pair_name, dense_rank() over (order by run_no, pair_name) as pair from named;

create temp table topics as
select number, run_no, row, ordered, topic from publications union
select number, run_no, row, ordered, split_part(pair_name, '#', 1) from pairs join publications using (number);
"""

_DELIVERIES: Final = """
create temp table deliveries as
select d.run_no, d.row, l.life, end_row = {never} as correct, d.position, d.tseq, p.number, p.row as published,
       p.publisher, p.ordered, p.guarantee, p.topic, p.incarnation::bigint << 40 | p.seq as place,
       d.node = p.publisher as own,
       d.topic is distinct from p.topic or d.guarantee is distinct from p.guarantee
           or coalesce(d.keys, []) <> p.keys as changed
from rows d
join lives l on d.run_no = l.run_no and d.node = l.node and d.row > begin_row and d.row < end_row
left join publications p
     on d.run_no = p.run_no and d.publisher = p.publisher and d.incarnation = p.incarnation and d.stream = p.stream
        and d.seq = p.seq
where kind = 'deliver';

create temp table twice as
select run_no, life, number, min(row) as row from deliveries where number is not null group by all having count(*) > 1;

create temp view sound as
select d.* from deliveries d left join twice t using (life, number)
where d.row > d.published and (t.row is null or t.row = d.row);
"""

_SUBSCRIPTIONS: Final = """
create temp table subscriptions as
with steps as (
    select life, filter, kind, row, count(*) filter (kind = 'subscribe')
           over (partition by life, filter order by row) as turn
    from events e join lives l on e.run_no = l.run_no and e.node = l.node and row > begin_row and row < end_row
    where kind in ('subscribe', 'subscribed', 'unsubscribe', 'unsubscribed')
)
select life, filter, min(row) filter (kind = 'subscribe') as asked,
       coalesce(min(row) filter (kind = 'subscribed'), {never}) as confirmed,
       coalesce(min(row) filter (kind = 'unsubscribe'), {never}) as ending,
       coalesce(min(row) filter (kind = 'unsubscribed'), {never}) as ended
from steps group by life, filter, turn;

create temp table wanted as
select s.*, run_no, topic, end_row, end_row = {never} as correct
from subscriptions s join lives using (life)
join (select distinct topic from topics) on regexp_full_match(
    topic, replace(replace(regexp_replace(filter, '/#$', '(/.*)?'), '#', '.*'), '+', '[^/]*'));
"""

_DUE: Final = """
create temp table receipts as
select r.run_no, r.row, receipt, p.number, p.row as published from rows r left join publications p
     on r.run_no = p.run_no and r.publisher = p.publisher and r.incarnation = p.incarnation and r.stream = p.stream
        and r.seq = p.seq
where kind = 'receipt';

create temp table due as
select number, w.life, any_value(t.run_no) as run_no, any_value(t.row) as published, any_value(ordered) as ordered,
       any_value(w.correct) as correct, max(w.ending) as until
from topics t
join wanted w on w.run_no = t.run_no and w.topic = t.topic and confirmed < t.row and t.row < least(ending, end_row)
group by number, w.life;

create temp table owed as
select number from publications where correct and number not in
       (select number from receipts where receipt = 'failed' and number is not null)
union select number from receipts where receipt in ('safe', 'delivered') and number is not null
union select number from deliveries where correct and number is not null;

create temp table missing as
select * from due semi join owed using (number) anti join deliveries using (life, number);
"""


def build(database: duckdb.DuckDBPyConnection, files: list[str]) -> None:
    """Raises ValueError for a trace that this yardstick does not understand."""
    for statement in _ROWS.split(";"):
        if statement.strip():
            database.execute(statement.replace("$files", f"[{', '.join(map(_quoted, files))}]"))
    database.execute(_LIVES.format(never=NEVER))
    strange = database.execute(
        "select kind from events where \"where\" is not null or kind in ('freeze', 'refused')"
    ).fetchone()
    if strange is not None:
        raise ValueError(f"the yardstick cannot judge a trace with {strange[0]} rows such as these")
    for text in (_PUBLICATIONS, _DELIVERIES, _SUBSCRIPTIONS, _DUE):
        database.execute(text.format(never=NEVER))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
