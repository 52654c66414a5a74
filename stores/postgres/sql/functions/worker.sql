-- What workers write. Rows are locked in the order of their numbers, everywhere.
-- What a row must be is given as columns of the sorted list, which the planner
-- cannot see through: a batch is looked up by its numbers, however few jobs the
-- statistics say are running.

-- The numbers of these jobs as they are stored, in their order, nothing for one
-- that is not there; each that runs has a row of its own after it.
CREATE FUNCTION windlass.unpacked_1(p_ids uuid[]) RETURNS bigint[] LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_seqs bigint[];
BEGIN
    SELECT array_agg(j.seq ORDER BY u.ord) INTO v_seqs
      FROM unnest(p_ids) WITH ORDINALITY AS u(id, ord) LEFT JOIN windlass.jobs j ON j.id = u.id;
    PERFORM windlass.unpack_1(v_seqs);
    RETURN v_seqs;
END $$;

-- Renews leases. Answers first with the instance of the store, also when all are lost; beside those that it renewed for
-- how long each stands still if it stood still before (windlass_core::epoch).
CREATE FUNCTION windlass.renew_1(p_now bigint, p_ids uuid[], p_fences bigint[])
RETURNS TABLE (id uuid, fence bigint, cancel_requested boolean, still_ms bigint, instance uuid) LANGUAGE plpgsql
{planned} AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_epoch windlass.epoch;
BEGIN
    PERFORM windlass.unpacked_1(p_ids);
    -- Claims may have been waited for, and somebody may have renewed the lease meanwhile.
    v_now := windlass.begin_1(p_now);
    v_epoch := windlass.pausing_1(v_now);
    RETURN QUERY SELECT NULL::uuid, NULL::bigint, NULL::boolean, NULL::bigint, e.instance FROM windlass.epoch e;
    RETURN QUERY
    UPDATE windlass.runs r SET expires_ms = greatest(r.expires_ms, windlass.moment_1(v_now + r.lease_ms)),
        marked_ms = NULL
      FROM (SELECT DISTINCT j.seq, u.id, u.fence, 1 AS running
              FROM unnest(p_ids, p_fences) AS u(id, fence) JOIN windlass.jobs j ON j.id = u.id ORDER BY j.seq) l
     WHERE r.seq = l.seq AND r.state = l.running AND r.fence = l.fence
    RETURNING l.id, r.fence, r.cancel_requested, CASE WHEN v_epoch.number IS NOT NULL THEN
              windlass.pause_until_1(v_epoch, split_part(r.label, chr(31), 1)) - v_now END, NULL::uuid;
END $$;

CREATE FUNCTION windlass.progress_1(p_now bigint, p_ids uuid[], p_fences bigint[], p_progress text[])
RETURNS TABLE (id uuid, fence bigint) LANGUAGE plpgsql
{planned} AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
BEGIN
    PERFORM windlass.unpacked_1(p_ids);
    RETURN QUERY
    UPDATE windlass.runs r SET progress = l.progress
      FROM (SELECT DISTINCT ON (j.seq, u.fence) j.seq, u.id, u.fence, u.progress, 1 AS running
              FROM unnest(p_ids, p_fences, p_progress) WITH ORDINALITY AS u(id, fence, progress, ord)
              JOIN windlass.jobs j ON j.id = u.id
             ORDER BY j.seq, u.fence, u.ord DESC) l
     WHERE r.seq = l.seq AND r.state = l.running AND r.fence = l.fence
    RETURNING l.id, r.fence;
END $$;

-- Stores outputs of steps; answers in the order asked: 0 stored or kept, 1 lost, 2 too many.
CREATE FUNCTION windlass.store_steps_1(
    p_now bigint, p_max integer, p_ids uuid[], p_fences bigint[], p_names text[], p_outputs text[])
RETURNS TABLE (written smallint) LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_job record;
    r record;
BEGIN
    PERFORM windlass.unpacked_1(p_ids);
    PERFORM FROM windlass.jobs j JOIN windlass.runs n ON n.seq = j.seq
      WHERE j.id = ANY (p_ids) ORDER BY n.seq FOR UPDATE OF n;
    FOR r IN SELECT u.id, u.fence, u.name, u.output FROM unnest(p_ids, p_fences, p_names, p_outputs)
             WITH ORDINALITY AS u(id, fence, name, output, ord) ORDER BY u.ord
    LOOP
        SELECT n.seq, n.steps_count, n.attempt INTO v_job FROM windlass.jobs j JOIN windlass.runs n ON n.seq = j.seq
         WHERE j.id = r.id AND n.state = 1 AND n.fence = r.fence;
        IF NOT FOUND THEN
            written := 1;
        ELSIF EXISTS (SELECT FROM windlass.steps s WHERE s.job_seq = v_job.seq AND s.name = r.name) THEN
            written := 0;
        ELSIF v_job.steps_count >= p_max THEN
            written := 2;
        ELSE
            INSERT INTO windlass.steps (job_seq, ordinal, name, output, attempt, stored_ms)
            VALUES (v_job.seq, v_job.steps_count, r.name, r.output, v_job.attempt, v_now);
            UPDATE windlass.runs SET steps_count = steps_count + 1, crashes = 0 WHERE seq = v_job.seq;
            written := 0;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Deletes jobs with all that they have.
CREATE FUNCTION windlass.delete_1(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    DELETE FROM windlass.steps s USING windlass.runs r
     WHERE r.seq = ANY (p_seqs) AND r.steps_count > 0 AND s.job_seq = r.seq;
    DELETE FROM windlass.runs r WHERE r.seq = ANY (p_seqs);
    DELETE FROM windlass.jobs j WHERE j.seq = ANY (p_seqs);
END $$;
