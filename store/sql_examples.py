"""Queries to start from in the SQL console; a test runs each of them."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    title: str
    sql: str


EXAMPLES = [
    Example("Fastest cells", """\
SELECT s.name AS sweep, r.cell_key, count(*) AS runs,
       median(m.value) AS end_to_end_s, max(m.value) / min(m.value) AS spread
FROM runs r JOIN sweeps s USING (sweep_id) JOIN metrics m USING (run_id)
WHERE m.name = 'end_to_end_s' AND r.status = 'ok'
  AND r.run_id NOT IN (SELECT target FROM deleted)
GROUP BY ALL ORDER BY end_to_end_s LIMIT 50"""),
    Example("Where the time goes", """\
SELECT r.experiment, p.phase, count(DISTINCT r.run_id) AS runs,
       avg(p.total_s / w.window_s) AS mean_share
FROM phase_summaries p JOIN runs r USING (run_id)
JOIN (SELECT run_id, sum(total_s) AS window_s FROM phase_summaries GROUP BY run_id) w USING (run_id)
WHERE r.status = 'ok' AND w.window_s > 0
GROUP BY ALL ORDER BY experiment, mean_share DESC"""),
    Example("Batches of the latest run", """\
SELECT batch, phase, seconds
FROM phases
WHERE run_id = (SELECT arg_max(run_id, started_at) FROM runs
                WHERE status = 'ok' AND run_id IN (SELECT run_id FROM batches))
ORDER BY batch, start_s"""),
    Example("One column per metric", """\
SELECT * FROM (
  PIVOT (SELECT run_id, name, value FROM metrics)
  ON name IN ('end_to_end_s', 'first_batch_s', 'steady_items_per_s', 'unaccounted_s')
  USING first(value) GROUP BY run_id)
JOIN (SELECT run_id, p.asked->>'$' AS batch_size FROM parameters p WHERE name = 'batch_size') USING (run_id)
ORDER BY end_to_end_s"""),
    Example("What went wrong", """\
SELECT status, reason, count(*) AS runs, max(started_at) AS latest
FROM runs WHERE status <> 'ok'
GROUP BY ALL ORDER BY runs DESC"""),
    Example("Machines and versions", """\
SELECT e.facts->>'hostname' AS machine, e.facts->>'$.libraries.torch' AS torch,
       e.facts->>'driver_version' AS driver, left(e.facts->>'git_commit', 10) AS commit,
       count(r.run_id) AS runs, min(r.started_at) AS first, max(r.started_at) AS last
FROM environments e LEFT JOIN runs r USING (environment_id)
GROUP BY ALL ORDER BY last DESC"""),
    Example("Memory and noise", """\
SELECT r.run_id, r.noisy, max(t.maximum) FILTER (t.metric = 'resident_bytes') AS most_resident_bytes,
       max(t.median) FILTER (t.metric = 'others_cpu_cores') AS others_cpu_cores
FROM runs r JOIN sample_summaries t USING (run_id)
GROUP BY ALL ORDER BY most_resident_bytes DESC NULLS LAST LIMIT 100"""),
]
