"""The statements that fill benchmarks/large_store.py's store, table by table.

They read `planned_plan` (sweeps), `planned_cells`, `planned_params`, `planned_phases` and `planned_metrics`, and
`chosen`: the runs whose turn it is.
"""

# Numbers that look random come from products with primes and from sines: the same on every machine.
PLANNED_RUNS = """
    CREATE TEMP TABLE planned_runs AS
    SELECT s.first + r.n AS number, s.sweep_id || '-' || c.cell_key[:10] || '-' || (r.n // c.places + 1) AS run_id,
           s.sweep_id, s.experiment, c.cell_key, (r.n // c.places + 1)::INTEGER AS repeat, s.kind, c.place,
           c.batch_size, c.workers,
           s.environment_id, s.environment_id = 'bbbbbbbbbbbb' AS gpu,
           s.created_at + to_microseconds((6e6 + r.n * 2.6e7 + (number * 7919) % 1000)::BIGINT) AS started_at,
           (number * 7919) % 1000 AS luck,
           CASE WHEN s.status = 'running' AND r.n = s.runs - 1 THEN 'running' WHEN luck < 910 THEN 'ok'
                WHEN luck < 940 THEN 'failed' WHEN luck < 955 THEN 'oom' WHEN luck < 965 THEN 'timeout'
                WHEN luck < 975 THEN 'killed' WHEN luck < 985 THEN 'cancelled' ELSE 'skipped' END AS outcome,
           CASE outcome WHEN 'failed' THEN 'RuntimeError: shape [' || c.batch_size || ', 3] is invalid for <input>'
                WHEN 'oom' THEN 'CUDA out of memory: tried to allocate ' || (1 + luck % 7) || ' GiB'
                WHEN 'timeout' THEN 'no sign of life for 300 s' WHEN 'cancelled' THEN 'cancelled by a person'
                WHEN 'killed' THEN 'the sweep process ended during this run'
                WHEN 'skipped' THEN 'a smaller batch of the same line was out of memory' END AS ending,
           CASE outcome WHEN 'ok' THEN s.batches WHEN 'skipped' THEN 0 WHEN 'oom' THEN 0 ELSE s.batches // 2 END
               AS done,
           0.97 + 0.06 * ((number * 104729) % 997) / 997 AS spread,  -- between runs
           0.0006 * c.batch_size * (1 + ascii(c.model[-1]) % 4) * c.times_as_long * spread AS step,  -- s of a batch
           1.7 AS measured_from, measured_from + step * (done + 3) + 0.15 AS wall_s
    FROM planned_plan s, LATERAL (SELECT unnest(range(s.runs)) AS n) r
    JOIN planned_cells c ON c.kind = s.kind AND c.place = r.n % c.places ORDER BY number
"""
SWEEPS = """
    INSERT INTO sweeps SELECT s.sweep_id, s.name, s.experiment, 'measured', s.status, s.reason, s.created_at,
        CASE WHEN s.status <> 'running' THEN s.created_at + to_seconds(26 * s.runs + 60) END, 1, s.planned, s.spec
    FROM planned_plan s ORDER BY s.sweep
"""
RUNS = """
    INSERT INTO runs SELECT run_id, sweep_id, experiment, cell_key, repeat, 1, outcome, ending, started_at,
        CASE WHEN outcome <> 'running' THEN started_at + to_milliseconds((wall_s * 1000)::BIGINT) END,
        CASE WHEN outcome <> 'running' THEN wall_s END, environment_id, NULL, NULL FROM planned_runs ORDER BY number
"""
ATTEMPTS = """
    INSERT INTO attempts SELECT run_id, attempt, status, reason, started_at, ended_at, wall_s FROM runs
"""
JOURNALS = """
    INSERT INTO journals SELECT 'sweeps/' || sweep_id || '/session-0001.jsonl', 20000, status <> 'running', NULL, NULL
    FROM planned_plan ORDER BY sweep;
    INSERT INTO journals SELECT 'sweeps/' || sweep_id || '/runs/' || run_id || '.1.jsonl', 30000, outcome <> 'running',
        CASE WHEN luck = 970 THEN 120 END, NULL FROM planned_runs WHERE outcome <> 'skipped' ORDER BY number
"""
FILES = """
    INSERT INTO files SELECT run_id, 'runs/' || run_id || '.trace.json', 'Trace', 1000 * luck FROM planned_runs
    WHERE luck % 50 = 0 ORDER BY number
"""
EVENTS = """
    INSERT INTO events SELECT sweep_id, NULL, created_at + to_seconds(n), CASE n WHEN 0 THEN 'no GPU telemetry: No GPU '
        || 'can be read.' ELSE 'preparing data: ' || (n * 64) || ' of 512' END
    FROM planned_plan, range(9) AS e(n) ORDER BY sweep, n
"""
RUN_EVENTS = """
    INSERT INTO events SELECT sweep_id, run_id, started_at, 'a loader worker was slow to start' FROM planned_runs
    WHERE luck % 20 = 3 ORDER BY number
"""
ANNOTATIONS = """
    INSERT INTO annotations
    SELECT s.sweep_id, a.field, a.value, s.created_at + INTERVAL 1 DAY FROM planned_plan s JOIN (VALUES
        (11, 'tag', 'paper'), (17, 'tag', '<i>later</i>'), (23, 'tag', 'größer'), (13, 'note', 'seen again in June'),
        (31, 'archive', ''), (97, 'delete', ''), (29, 'note', repeat('A long note. ', 200))) AS a(every, field, value)
        ON s.sweep % a.every = 5 AND s.status <> 'running'
    UNION ALL
    SELECT r.run_id, a.field, a.value, r.started_at + INTERVAL 1 DAY FROM planned_runs r JOIN (VALUES
        (53, 'tag', 'baseline'), (211, 'tag', 'odd'), (307, 'note', 'the fan was loud'), (401, 'archive', ''),
        (997, 'delete', '')) AS a(every, field, value) ON r.number % a.every = 2 AND r.outcome <> 'running'
"""
PARAMETERS = """
    INSERT INTO parameters SELECT r.run_id, p.name, p.asked,
        CASE WHEN r.outcome IN ('skipped', 'oom') THEN NULL WHEN p.name = 'device' AND r.gpu THEN '"cuda:0"'
             ELSE p.effective END
    FROM chosen r JOIN planned_params p ON p.kind = r.kind AND p.place = r.place
    WHERE p.asked IS NOT NULL OR r.outcome NOT IN ('skipped', 'oom') ORDER BY r.number, p.position
"""
STAGES = """
    INSERT INTO stages SELECT run_id, t.stage, CASE WHEN t.start_s < 0 THEN wall_s + t.start_s ELSE t.start_s END,
        CASE t.stage WHEN 'measure' THEN wall_s - 0.15 - measured_from ELSE t.seconds END
    FROM chosen, (VALUES (0, 'start_process', 0.0, 0.06), (1, 'prepare_data', 0.06, 0.04), (2, 'init_model', 0.1, 0.23),
                       (3, 'model_to_device', 0.33, 0.01), (4, 'warm_up', 0.34, 1.35), (5, 'measure', 1.7, 0.0),
                       (6, 'validate', -0.15, 0.1), (7, 'finish', -0.05, 0.05)) AS t(place, stage, start_s, seconds)
    WHERE outcome <> 'skipped' AND (t.place < 4 OR done > 0) AND (t.place < 5 OR outcome = 'ok')
    AND (t.stage <> 'validate' OR experiment = 'training') ORDER BY number, t.place
"""
# Batch n starts at n steps plus a small wave, and lasts until the next one starts; batch 0 takes three steps longer.
BATCHES = """
    CREATE OR REPLACE TEMP TABLE chosen_batches AS
    SELECT number, run_id, experiment, n::INTEGER AS batch, batch_size, gpu, workers, step,
           measured_from + step * (n + CASE WHEN n > 0 THEN 3 ELSE 0 END + 0.06 * sin(n * 1.7 + number)) AS start_s,
           measured_from + step * (n + 4 + 0.06 * sin((n + 1) * 1.7 + number)) - start_s AS seconds
    FROM chosen, LATERAL (SELECT unnest(range(done)) AS n) ORDER BY number, n;
    INSERT INTO batches SELECT run_id, batch, batch_size, start_s, seconds FROM chosen_batches ORDER BY number, batch
"""
# The first phase takes a share that falls with the workers; the others share the rest alike, but copying is short.
PHASES = """
    INSERT INTO phases SELECT run_id, batch, t.phase, CASE WHEN gpu AND t.place > 0 THEN 'device' ELSE 'host' END,
        start_s + CASE t.place WHEN 0 THEN 0 ELSE first_s + t.before * (0.985 * seconds - first_s) END,
        CASE t.place WHEN 0 THEN first_s ELSE t.share * (0.985 * seconds - first_s) END
    FROM (SELECT *, seconds * CASE WHEN batch = 0 THEN 0.75 ELSE 0.4 / (1 + workers) END AS first_s
          FROM chosen_batches) JOIN planned_phases t USING (experiment)
    ORDER BY number, batch // 10, t.place, batch
"""
# Hundreds of readings, thousands of rows, in the running run and in one of 500; a few in all others.
SAMPLES = """
    INSERT INTO samples SELECT run_id, t.device, t.metric, 0.02 + n * wall_s / readings,
        (t.low + (t.high - t.low) * (0.5 + 0.5 * sin(n * 0.21 + number)))
        * CASE WHEN t.metric = 'others_cpu_cores' AND luck % 25 = 1 THEN 9 ELSE 1 END  -- a noisy run
    FROM (SELECT *, CASE WHEN number % 500 = 7 OR outcome = 'running' THEN 900 ELSE 5 END AS readings FROM chosen
          WHERE outcome <> 'skipped'), LATERAL (SELECT unnest(range(readings)) AS n),
         (VALUES ('cpu', 'processes', 1, 3), ('cpu', 'resident_bytes', 4e8, 1.5e9),
                 ('cpu', 'run_process_resident_bytes', 3e8, 1e9), ('cpu', 'memory_available_bytes', 2.2e10, 2.3e10),
                 ('cpu', 'others_cpu_cores', 0, 0.2), ('cpu', 'steal_share', 0, 0.01), ('cpu', 'run_cpu_cores', 1.2, 2),
                 ('cpu', 'disk_read_bytes_per_s', 0, 3e6), ('gpu0', 'gpu_utilization', 0.4, 1),
                 ('gpu0', 'gpu_memory_used_bytes', 2e9, 6e9), ('gpu0', 'power_watts', 120, 390))
         AS t(device, metric, low, high)
    WHERE gpu OR t.device = 'cpu' ORDER BY number, n
"""
# One training step by category, the loss of every batch, and the sizes that a search for the largest batch tried.
CURVES = """
    INSERT INTO samples SELECT run_id, 'memory', t.metric, measured_from + n * 0.002,
        CASE t.metric WHEN 'activations_bytes' THEN 4e7 * (1 - abs(n - 30) / 30) WHEN 'gradients_bytes'
             THEN 6e6 * greatest(n - 30, 0) / 30 ELSE t.held END * spread
    FROM chosen, range(61) AS m(n), (VALUES ('parameters_bytes', 6e6), ('buffers_bytes', 1e5), ('gradients_bytes', 0),
        ('optimizer_state_bytes', 1.2e7), ('activations_bytes', 0), ('temporaries_bytes', 2e6)) AS t(metric, held)
    WHERE experiment = 'memory' AND outcome = 'ok' ORDER BY number, n;
    INSERT INTO samples SELECT run_id, 'training', 'loss', start_s + seconds,
        0.5 + 1.8 * exp(-batch / 30) + 0.05 * sin(batch * 1.3 + number)
    FROM chosen_batches WHERE experiment = 'training' ORDER BY number, batch;
    INSERT INTO samples SELECT run_id, 'try', t.metric, 1.0 + n, CASE t.metric WHEN 'batch_size' THEN 32 * (1 + n)
        WHEN 'fits' THEN (n < 6)::DOUBLE WHEN 'peak_bytes' THEN 1.5e8 * (1 + n) WHEN 'usable_bytes' THEN 2^30
        ELSE 0.8 END
    FROM chosen, range(8) AS m(n), (VALUES ('batch_size'), ('fits'), ('peak_bytes'), ('usable_bytes'), ('seconds'))
        AS t(metric) WHERE experiment = 'max_batch' AND outcome = 'ok' ORDER BY number, n
"""
METRICS = """
    INSERT INTO metrics SELECT run_id, t.name, CASE t.name WHEN 'end_to_end_s' THEN wall_s - 0.15 - measured_from
        WHEN 'batches' THEN done ELSE done * batch_size END, t.unit, 'measured'
    FROM chosen, (VALUES ('end_to_end_s', 's'), ('batches', NULL), ('items', NULL)) AS t(name, unit)
    WHERE outcome = 'ok' AND done > 0 ORDER BY number;
    INSERT INTO metrics SELECT run_id, m.name, m.value * CASE m.unit WHEN 's' THEN wall_s - 0.15 - measured_from
        WHEN 'bytes' THEN spread ELSE 1 END, m.unit, 'measured'
    FROM chosen JOIN planned_metrics m USING (kind, place) WHERE outcome = 'ok' ORDER BY number
"""

OF_ALL = (PLANNED_RUNS, SWEEPS, RUNS, ATTEMPTS, JOURNALS, FILES, EVENTS, RUN_EVENTS, ANNOTATIONS)
OF_CHOSEN = (PARAMETERS, STAGES, BATCHES, PHASES, SAMPLES, CURVES, METRICS)
