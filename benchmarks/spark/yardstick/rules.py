"""One query for each rule; each answers with the run, the life and the publication of every violation."""

from typing import Final

from benchmarks.spark.yardstick.tables import NEVER

RULES: Final = {
    "identity": """
        select run_no, life, number from (
            select *, lag(incarnation::bigint << 40 | seq) over (partition by run_no, publisher, stream order by row)
                      >= (incarnation::bigint << 40 | seq) as back from publications)
        where back
        union all select run_no, life, number from all_publications where repeated""",
    "invented": """
        select run_no, life, number from deliveries where number is null or row < published or changed""",
    "twice": """
        select run_no, life, number from twice""",
    "position": """
        select run_no, life, number from (
            select *, lag(position, 1, -1) over (partition by life order by row) + 1 as next from deliveries)
        where position <> next""",
    "unasked": """
        with doubtful as (
            select run_no, life, number, row from deliveries d where number is not null and not exists (
                select 1 from wanted w where w.topic = d.topic and w.life = d.life and asked < d.row and d.row < ended))
        select run_no, life, number from doubtful d where not exists (
            select 1 from topics t join wanted w on w.topic = t.topic
            where t.number = d.number and w.life = d.life and asked < d.row and d.row < ended)""",
    "lost": f"""
        select run_no, life, number from missing where correct and until = {NEVER}
        and run_no in (select run_no from events where kind = 'quiescent')""",
    "fifo": """
        select run_no, life, number from (
            select *, max(place) over (partition by life, publisher order by position
                                       rows between unbounded preceding and 1 preceding) as newest
            from sound where ordered)
        where place < newest""",
    "total": """
        select run_no, life, number from (
            select d.*, pair, lag(d.tseq) over (partition by life, pair order by position) as last
            from sound d join pairs using (number) where total and d.tseq is not null)
        where tseq <= last""",
    "barrier": """
        with sides as (
            select run_no, pair, life, number, guarantee,
                   max(tseq) over (partition by life, pair order by position
                                   rows between unbounded preceding and 1 preceding) as before,
                   min(tseq) over (partition by life, pair order by position
                                   rows between 1 following and unbounded following) as after
            from sound join pairs using (number) where pair in (select pair from pairs where total))
        select run_no, null as life, number from sides where guarantee <> 'total'
        group by run_no, pair, number having min(after) <= max(before)""",
    "receipt": """
        select run_no, null as life, number from receipts where number is null or row < published
        union all
        select run_no, null, number from (
            select *, max(step) over (partition by number order by row) as reached from (
                select *, list_position(['accepted', 'safe', 'delivered'], receipt) as step from receipts
                where receipt <> 'failed' and row > published))
        where step < reached
        union all
        select r.run_no, u.life, r.number from (select number, run_no, min(row) as row from receipts
            where receipt = 'delivered' and row > published group by all) r
        join due u on u.number = r.number and u.correct and u.until >= r.row
        where not exists (
            select 1 from deliveries d where d.life = u.life and d.number = u.number and d.row < r.row)""",
}

SUSPECTS: Final = """
    with passed_on as (
        select number, min(row) as first from sound where not own group by number
    ), ready as (
        select number, min(first) over (partition by run_no, publisher order by row
                                        rows between current row and unbounded following) as ready
        from publications left join passed_on using (number)
    ), steps as (
        select run_no, life, row, number, published, guarantee in ('causal', 'total') as judged, ordered
        from sound
        union all
        select run_no, life, until, number, published, false, true from missing where ordered
    ), looked_at as (
        select *, min(case when ordered then ready end) over (
            partition by life order by row desc rows between unbounded preceding and 1 preceding) as ready_later
        from steps join ready using (number)
    )
    select distinct run_no, life from looked_at where judged and ready_later < published
"""
"""With whoever violates `IMPLYING`, all lives in which causal order may be violated. A publication m cannot depend on d
of another client unless somebody got d, or a later publication of d's client, before m was made. On earlier ones of its
own client it always depends, and whoever delivers those after it violates fifo. Rows tell the order of deliveries where
positions grow with them."""

IMPLYING: Final = ("fifo", "position", "lost")
