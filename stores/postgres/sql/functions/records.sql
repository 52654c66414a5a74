-- Records. Writes of one shelf go one after the other, until their commit: so a revision that is seen is above all
-- that will be, and whoever follows them misses none.

-- Locks shelves, in the same order everywhere, until the transaction ends. Many shelves share a lock, so that a
-- batch on very many of them takes no more of the server's memory for locks than it may.
CREATE FUNCTION windlass.lock_shelves_1(p_shelves text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_lock integer;
BEGIN
    FOR v_lock IN SELECT DISTINCT (hashtextextended(u.shelf, 0) & 255)::integer AS lock
                    FROM unnest(p_shelves) AS u(shelf) ORDER BY lock
    LOOP
        PERFORM pg_advisory_xact_lock(1464747084, v_lock);
    END LOOP;
END $$;

-- Locks what several batches of one transaction will write, before the first of them: shelves, and the leases of these
-- jobs, each in the order in which everybody locks them.
CREATE FUNCTION windlass.lock_batches_1(p_shelves text[], p_jobs uuid[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    PERFORM windlass.lock_shelves_1(p_shelves);
    PERFORM windlass.unpacked_1(p_jobs);
    PERFORM FROM windlass.jobs j JOIN windlass.runs r ON r.seq = j.seq
      WHERE j.id = ANY (p_jobs) ORDER BY r.seq FOR UPDATE OF r;
END $$;

-- Whether a job is held with this fence. With p_lock it stays so until the transaction ends: by the lock that
-- whoever takes a lease back has to have. The job has a row of its own, if it runs.
CREATE FUNCTION windlass.is_held_1(p_job uuid, p_fence bigint, p_lock boolean)
RETURNS boolean LANGUAGE plpgsql
{planned} AS $$
BEGIN
    IF p_lock THEN
        PERFORM FROM windlass.jobs j JOIN windlass.runs r ON r.seq = j.seq WHERE j.id = p_job FOR UPDATE OF r;
    END IF;
    RETURN EXISTS (
        SELECT FROM windlass.jobs j JOIN windlass.runs r ON r.seq = j.seq
         WHERE j.id = p_job AND r.state = 1 AND r.fence = p_fence);
END $$;

-- The first of these writes whose condition does not hold, and what is there instead. A condition is nothing for
-- any, 0 for none, or the revision. Mirrors Book::write_records.
CREATE FUNCTION windlass.unfit_1(p_now bigint, p_shelves text[], p_keys text[], p_ifs bigint[])
RETURNS TABLE (ord bigint, rev bigint) LANGUAGE plpgsql STABLE
{planned} AS $$
BEGIN
    RETURN QUERY
    SELECT u.ord, r.rev FROM unnest(p_shelves, p_keys, p_ifs) WITH ORDINALITY AS u(shelf, key, expected, ord)
      LEFT JOIN windlass.records r
        ON r.shelf = u.shelf AND r.key = u.key AND (r.expires_ms IS NULL OR r.expires_ms > p_now)
     WHERE u.expected IS DISTINCT FROM coalesce(r.rev, 0) AND u.expected IS NOT NULL
     ORDER BY u.ord LIMIT 1;
END $$;

-- Puts and deletes records; the shelves are locked. A value that is nothing deletes.
CREATE FUNCTION windlass.put_records_1(
    p_now bigint, p_revs bigint[], p_shelves text[], p_keys text[], p_values text[], p_sorts bigint[],
    p_labels text[], p_keeps bigint[], p_untils bigint[])
RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    DELETE FROM windlass.records r USING unnest(p_shelves, p_keys, p_values) AS u(shelf, key, value)
     WHERE u.value IS NULL AND r.shelf = u.shelf AND r.key = u.key;
    INSERT INTO windlass.records (shelf, key, sort, rev, written_ms, expires_ms, label, value)
    SELECT u.shelf, u.key, u.sort, u.rev, p_now,
           CASE WHEN u.keep IS NOT NULL THEN windlass.moment_1(p_now + u.keep) ELSE u.until END, u.label, u.value
      FROM unnest(p_shelves, p_keys, p_revs, p_values, p_sorts, p_labels, p_keeps, p_untils)
           AS u(shelf, key, rev, value, sort, label, keep, until)
     WHERE u.value IS NOT NULL
    ON CONFLICT (shelf, key) DO UPDATE
       SET sort = excluded.sort, rev = excluded.rev, written_ms = excluded.written_ms,
           expires_ms = excluded.expires_ms, label = excluded.label, value = excluded.value;
END $$;

-- Writes a batch, all or none, with its jobs. Answers what became of it: 0 done, 1 a conflict (which write, and
-- what is there), 2 the lease is lost, 3 it was done before. A lease that was lost while the jobs were accepted
-- ends the call with WL005, and nothing changes. Mirrors Book::write_records.
--
-- Locks: shelves, the claim of the lease, keys of the jobs, the run of the lease; others take them in this order.
CREATE FUNCTION windlass.write_records_1(
    p_now bigint, p_batch uuid, p_lease uuid, p_fence bigint, p_shelves text[], p_keys text[], p_ifs bigint[],
    p_values text[], p_sorts bigint[], p_labels text[], p_keeps bigint[], p_untils bigint[],
    p_ids uuid[], p_kinds text[], p_queues text[], p_payloads text[], p_priorities smallint[],
    p_job_keys text[], p_dedupe_keys text[], p_budgets text[], p_retries text[], p_timeouts bigint[], p_metas text[],
    p_run_at bigint[], p_delays bigint[])
RETURNS TABLE (outcome integer, ord bigint, rev bigint, revs bigint[], jobs uuid[], deduplicated boolean[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now bigint;
    v_has_jobs boolean := cardinality(p_ids) > 0;
    r record;
BEGIN
    PERFORM windlass.lock_shelves_1(p_shelves);
    SELECT b.revs, b.jobs, b.deduplicated INTO r FROM windlass.batches b WHERE b.id = p_batch;
    IF FOUND THEN
        RETURN QUERY SELECT 3, NULL::bigint, NULL::bigint, r.revs, r.jobs, r.deduplicated;
        RETURN;
    END IF;
    IF p_lease IS NOT NULL THEN
        PERFORM windlass.unpacked_1(ARRAY[p_lease]);
        IF NOT windlass.is_held_1(p_lease, p_fence, NOT v_has_jobs) THEN
            RETURN QUERY SELECT 2, NULL::bigint, NULL::bigint, NULL::bigint[], NULL::uuid[], NULL::boolean[];
            RETURN;
        END IF;
    END IF;
    -- After the locks, which may have been waited for.
    v_now := windlass.begin_1(p_now);
    SELECT u.ord, u.rev INTO r FROM windlass.unfit_1(v_now, p_shelves, p_keys, p_ifs) u;
    IF FOUND THEN
        RETURN QUERY SELECT 1, r.ord, r.rev, NULL::bigint[], NULL::uuid[], NULL::boolean[];
        RETURN;
    END IF;
    jobs := '{}';
    deduplicated := '{}';
    IF v_has_jobs THEN
        SELECT array_agg(e.there), array_agg(e.deduplicated) INTO jobs, deduplicated
          FROM windlass.enqueue_1(p_now, true, p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_job_keys,
                                  p_dedupe_keys, p_budgets, p_retries, p_timeouts, p_metas, p_run_at, p_delays) e;
        IF jobs IS NULL THEN
            jobs := p_ids;
            deduplicated := array_fill(false, ARRAY[cardinality(p_ids)]);
        END IF;
        IF p_lease IS NOT NULL AND NOT windlass.is_held_1(p_lease, p_fence, true) THEN
            RAISE EXCEPTION 'the lease is lost' USING ERRCODE = 'WL005';
        END IF;
    END IF;
    revs := ARRAY(SELECT nextval('windlass.record_rev') FROM generate_series(1, cardinality(p_keys)));
    PERFORM windlass.put_records_1(v_now, revs, p_shelves, p_keys, p_values, p_sorts, p_labels, p_keeps, p_untils);
    INSERT INTO windlass.batches (id, at_ms, revs, jobs, deduplicated)
    VALUES (p_batch, v_now, revs, jobs, deduplicated);
    outcome := 0;
    RETURN NEXT;
END $$;

-- Forgets batches, and deletes records that have expired, so many at most; answers how many of both went.
CREATE FUNCTION windlass.prune_records_1(p_now bigint, p_batch_ms bigint, p_max integer)
RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_batches bigint;
    v_records bigint;
BEGIN
    DELETE FROM windlass.batches WHERE id = ANY (ARRAY(
        SELECT b.id FROM windlass.batches b WHERE b.at_ms <= p_now - p_batch_ms ORDER BY b.at_ms LIMIT p_max));
    GET DIAGNOSTICS v_batches = ROW_COUNT;
    -- One that is being written is there again.
    WITH gone AS MATERIALIZED (
        SELECT r.shelf, r.key FROM windlass.records r WHERE r.expires_ms <= p_now
         ORDER BY r.expires_ms LIMIT p_max FOR UPDATE SKIP LOCKED
    )
    DELETE FROM windlass.records r USING gone g WHERE r.shelf = g.shelf AND r.key = g.key;
    GET DIAGNOSTICS v_records = ROW_COUNT;
    RETURN greatest(v_batches, v_records);
END $$;
