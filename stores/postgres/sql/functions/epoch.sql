-- Epochs; the rules are those of windlass_core::epoch.

-- The history that this table is written by: the system identifier of the server, which a dump that was restored
-- elsewhere does not have; the database and the table, which are others where one was restored or cloned on the same
-- server; and the timeline, which is another after every promotion and every recovery to a point in time. What cannot
-- change while a session lives is looked up once in it; a session is of one database, also behind a pooler. A server
-- that does not say where its log is (some that are hosted) says its timeline after the next checkpoint.
CREATE FUNCTION windlass.history_2(p_table oid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_place text := current_setting('windlass.place', true);
BEGIN
    IF coalesce(v_place, '') = '' THEN
        v_place := windlass.place_1();
        PERFORM set_config('windlass.place', v_place, false);
    END IF;
    IF right(v_place, 1) = '.' THEN
        RETURN left(v_place, -1) || p_table || '.' || windlass.timeline_1();
    END IF;
    RETURN left(v_place, -1) || p_table || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
END $$;

-- The timeline as of the last checkpoint; 0 on a server that does not say that either.
CREATE FUNCTION windlass.timeline_1() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT c.timeline_id FROM pg_control_checkpoint() c);
EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
    RETURN '0';
END $$;

-- What a session may remember of where it is: server and database. It ends with a point where the log does not tell the
-- timeline.
CREATE FUNCTION windlass.place_1() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_system text := '0';
    v_database text := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
BEGIN
    BEGIN
        v_system := (SELECT c.system_identifier FROM pg_control_system() c);
        PERFORM pg_walfile_name(pg_current_wal_insert_lsn());
        RETURN v_system || ':' || v_database || ':/';
    EXCEPTION WHEN OTHERS THEN
        RETURN v_system || ':' || v_database || ':.';
    END;
END $$;

-- The time by the server's clock, unless it is given.
CREATE FUNCTION windlass.clock_1(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- The time of a call, which is also where a call makes sure that what it commits is durable, whatever the session, the
-- role or a pooler says, and that it is of the epoch that the store is in: a connection may lead to another server than
-- the one that it was opened to.
CREATE FUNCTION windlass.begin_1(p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := windlass.clock_1(p_now);
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF NOT EXISTS (SELECT FROM windlass.epoch e
                    WHERE e.started = pg_postmaster_start_time() AND e.history = windlass.history_2(e.tableoid)) THEN
        PERFORM windlass.turn_1(v_now);
    END IF;
    RETURN v_now;
END $$;

-- The floor that follows a floor; mirrors epoch::lifted.
CREATE FUNCTION windlass.lifted_1(p_floor bigint, p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT greatest(p_floor + 1048576, greatest(0, (p_now - 1577836800000) / 1000) * 1048576) / 1048576 * 1048576
         + floor(random() * 524288)::bigint
$$;

-- Whether this server was recovered to a point in time: its settings still name the point.
CREATE FUNCTION windlass.recovered_to_a_point_1() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM pg_settings s WHERE s.setting <> '' AND s.name IN (
        'recovery_target', 'recovery_target_lsn', 'recovery_target_name', 'recovery_target_time',
        'recovery_target_xid'))
$$;

-- Begins the first epoch, or the next one when the history is another than it was; where only the server was started,
-- lifts the floor: a snapshot of its disk comes back with the same history. Afterwards the row is that of this server.
-- Mirrors Book::turn and Book::lift.
CREATE FUNCTION windlass.turn_1(p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    e windlass.epoch;
    v_history text := windlass.history_2('windlass.epoch'::regclass);
    v_began_ms bigint;
BEGIN
    INSERT INTO windlass.epoch (number, instance, floor, began_ms, first_seq, lossy, history, started)
    VALUES (1, gen_random_uuid(), 0, 0, 0, false, v_history, pg_postmaster_start_time()) ON CONFLICT DO NOTHING;
    SELECT * INTO STRICT e FROM windlass.epoch FOR UPDATE;
    IF e.history = v_history AND e.started = pg_postmaster_start_time() THEN
        -- Somebody else was faster, or it is the first.
        RETURN;
    END IF;
    e.floor := windlass.lifted_1(e.floor, p_now);
    e.started := pg_postmaster_start_time();
    IF e.history <> v_history THEN
        e.number := e.number + 1;
        e.instance := gen_random_uuid();
        v_began_ms := e.began_ms;
        e.began_ms := p_now;
        e.first_seq := nextval('windlass.job_seq');
        -- A promotion has the same system identifier, database and table; a restore has not, or says to which point it
        -- went. What the epoch before still holds back stays so.
        e.lossy := NOT e.synchronous
            OR split_part(translate(e.history, '.', '/'), '/', 1) <> split_part(translate(v_history, '.', '/'), '/', 1)
            OR windlass.recovered_to_a_point_1()
            OR e.lossy AND p_now < v_began_ms + e.pause_max_ms;
        e.history := v_history;
        PERFORM windlass.renew_all_1(p_now);
        PERFORM windlass.fix_pauses_1(p_now, e.lossy, e.pause_max_ms);
        PERFORM setval('windlass.record_rev', nextval('windlass.record_rev') + 1048576);
        UPDATE windlass.budgets b
           SET writes = b.writes + 1,
               second_window = b.second_window || windlass.filled_1(b.second_window, {second_ms}, b.per_second, p_now),
               minute_window = b.minute_window || CASE WHEN e.lossy THEN
                   windlass.filled_1(b.minute_window, {minute_ms}, b.per_minute, p_now) ELSE '[]' END
         WHERE b.per_second IS NOT NULL OR b.per_minute IS NOT NULL;
    END IF;
    UPDATE windlass.epoch x
       SET number = e.number, instance = e.instance, floor = e.floor, began_ms = e.began_ms, first_seq = e.first_seq,
           lossy = e.lossy, history = e.history, started = e.started;
END $$;

-- What is to be added to a window so that all of its bound is spent now: a pair of bucket and amount, which may be of
-- the same bucket as the last. Mirrors: Budget::fill. Test: conformance (epochs).
CREATE FUNCTION windlass.filled_1(p_window jsonb, p_bucket_ms bigint, p_bound bigint, p_now bigint) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_bound IS NULL THEN '[]' ELSE jsonb_build_array(jsonb_build_array(
               greatest(p_now / p_bucket_ms, (p_window -> -1 ->> 0)::bigint), p_bound)) END
$$;

-- Counts the beginning of an epoch as a renewal of every lease; mirrors Lease::renew_from.
CREATE FUNCTION windlass.renew_all_1(p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE windlass.grants g SET due_ms = greatest(g.due_ms, windlass.moment_1(p_now + g.lease_ms));
    UPDATE windlass.runs r SET expires_ms = greatest(r.expires_ms, windlass.moment_1(p_now + r.lease_ms)),
        marked_ms = NULL
      FROM (SELECT s.seq FROM windlass.grants g
             CROSS JOIN LATERAL windlass.seqs_1(g.block, g.given & ~g.open) AS s(seq)) l
     WHERE r.seq = l.seq AND r.state = 1;
END $$;

-- Fixes for how long an epoch that begins holds back jobs, by what is known of their queues now; mirrors
-- Book::pauses_now.
CREATE FUNCTION windlass.fix_pauses_1(p_now bigint, p_lossy boolean, p_max_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM windlass.pauses;
    IF NOT p_lossy THEN
        RETURN;
    END IF;
    INSERT INTO windlass.pauses (queue, pause_ms)
    SELECT n.queue, least(p_max_ms, max(n.lease_ms)) FROM (
        SELECT q.name AS queue, q.lease_ms FROM windlass.queues q
        UNION ALL SELECT l.queue, l.lease_ms FROM windlass.long_leases l
        UNION ALL SELECT l.queue, 30000 FROM windlass.long_leases l
         WHERE NOT EXISTS (SELECT FROM windlass.queues q WHERE q.name = l.queue)) n
     GROUP BY n.queue;
END $$;

-- Until when jobs of a queue are held back that somebody in a lost history may hold; nothing when none are. Mirrors
-- Book::pause_until.
CREATE FUNCTION windlass.pause_until_1(e windlass.epoch, p_queue text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN e.lossy THEN e.began_ms + least(e.pause_max_ms,
               coalesce((SELECT p.pause_ms FROM windlass.pauses p WHERE p.queue = p_queue), 30000)) END
$$;

-- Whether an id was made in this epoch; mirrors Epoch::is_new.
CREATE FUNCTION windlass.is_new_2(e windlass.epoch, p_id uuid, p_accepted_ms bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT substr(p_id::text, 15, 1) = '7'
       AND ('x' || left(translate(p_id::text, '-', ''), 12))::bit(48)::bigint
           BETWEEN e.began_ms AND p_accepted_ms + 1000
$$;

-- The seed with which the gate of a new job without a key is hashed: 0, or the number of the epoch while that holds
-- back others and nobody can hold this one, so that such jobs stand in gates of their own.
CREATE FUNCTION windlass.seed_2(e windlass.epoch, p_now bigint, p_id uuid, p_key text, p_dedupe_key text)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN e.number IS NULL OR p_key IS NOT NULL OR p_dedupe_key IS NOT NULL
                  OR NOT windlass.is_new_2(e, p_id, p_now)
                THEN 0 ELSE e.number END
$$;

-- The epoch, as long as it may hold back anything; otherwise nothing. Every call asks: a function in SQL would be
-- planned anew each time.
CREATE FUNCTION windlass.pausing_1(p_now bigint) RETURNS windlass.epoch LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_epoch windlass.epoch;
BEGIN
    SELECT e.* INTO v_epoch FROM windlass.epoch e WHERE e.lossy AND p_now < e.began_ms + e.pause_max_ms;
    RETURN v_epoch;
END $$;

-- Whether a gate is held back by the epoch, and until when. Mirrors Epoch::may_be_held for its jobs.
CREATE FUNCTION windlass.held_until_1(e windlass.epoch, p_now bigint, p_gate bigint, p_label text, p_limit bigint)
RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_until bigint := windlass.pause_until_1(e, split_part(p_label, chr(31), 1));
BEGIN
    IF p_now >= v_until OR v_until IS NULL THEN
        RETURN NULL;
    END IF;
    IF p_gate = hashtextextended(p_label, e.number) AND p_limit IS NULL AND NOT EXISTS (
        SELECT FROM unnest((string_to_array(p_label, chr(31)))[4:]) AS n(name)
            JOIN windlass.budgets b ON b.name = n.name
         WHERE b.slots IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    RETURN v_until;
END $$;

-- Remembers leases that are longer than their queues say.
CREATE FUNCTION windlass.note_lease_1(p_now bigint, p_lease_ms bigint, p_queues text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_queue text;
BEGIN
    FOR v_queue IN
        SELECT DISTINCT u.queue FROM unnest(p_queues) AS u(queue) LEFT JOIN windlass.queues q ON q.name = u.queue
         WHERE p_lease_ms > coalesce(q.lease_ms, 30000) ORDER BY u.queue
    LOOP
        PERFORM windlass.note_long_lease_1(p_now, v_queue, p_lease_ms);
    END LOOP;
END $$;

-- Remembers a lease for a day and an hour, unless one that is as long is remembered for a day; mirrors
-- LongLeases::note. A shorter one that somebody else is writing stays: it is covered, and pruned with the others.
CREATE FUNCTION windlass.note_long_lease_1(p_now bigint, p_queue text, p_lease_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM windlass.long_leases l
                WHERE l.queue = p_queue AND l.lease_ms >= p_lease_ms AND l.until_ms >= p_now + 86400000) THEN
        RETURN;
    END IF;
    INSERT INTO windlass.long_leases AS l (queue, lease_ms, until_ms) VALUES (p_queue, p_lease_ms, p_now + 90000000)
    ON CONFLICT (queue, lease_ms) DO UPDATE SET until_ms = greatest(l.until_ms, excluded.until_ms);
    DELETE FROM windlass.long_leases l WHERE l.queue = p_queue AND l.lease_ms = ANY (ARRAY(
        SELECT s.lease_ms FROM windlass.long_leases s WHERE s.queue = p_queue AND s.lease_ms < p_lease_ms
           FOR UPDATE SKIP LOCKED));
END $$;

-- Remembers the lease of a queue whose policy makes it shorter; mirrors Book::put_queue.
CREATE FUNCTION windlass.note_shorter_1(p_now bigint, p_queue text, p_lease_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lease_ms bigint;
BEGIN
    SELECT q.lease_ms INTO v_lease_ms FROM windlass.queues q WHERE q.name = p_queue FOR UPDATE;
    IF p_lease_ms < v_lease_ms THEN
        PERFORM windlass.note_long_lease_1(windlass.clock_1(p_now), p_queue, v_lease_ms);
    END IF;
END $$;

-- Numbers events that were written since, at most so many, in the order in which they were written, as far as they are
-- committed: none of them comes before one that somebody was told of. Answers how many it numbered, the newest
-- number, the oldest that is kept, and of which instance they are.
CREATE FUNCTION windlass.follow_1(p_now bigint, p_max integer)
RETURNS TABLE (numbered bigint, newest bigint, oldest bigint, instance uuid) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_end bigint;
BEGIN
    PERFORM windlass.begin_1(p_now);
    numbered := 0;
    IF EXISTS (SELECT FROM windlass.events) THEN
        SELECT e.place INTO STRICT v_end FROM windlass.feed_end e FOR UPDATE;
        WITH moved AS (
            DELETE FROM windlass.events e WHERE e.pos = ANY (ARRAY(SELECT e.pos FROM windlass.events e
                ORDER BY e.pos LIMIT p_max))
            RETURNING e.pos, e.at_ms, e.what, e.queue, e.jobs, e.action
        )
        INSERT INTO windlass.feed (place, at_ms, what, queue, jobs, action)
        SELECT v_end + row_number() OVER (ORDER BY m.pos), m.at_ms, m.what, m.queue, m.jobs, m.action FROM moved m;
        GET DIAGNOSTICS numbered = ROW_COUNT;
        UPDATE windlass.feed_end SET place = v_end + numbered;
    END IF;
    SELECT x.place, coalesce((SELECT min(f.place) FROM windlass.feed f), x.place + 1), e.instance
      INTO newest, oldest, instance FROM windlass.feed_end x, windlass.epoch e;
    RETURN NEXT;
END $$;

-- Deletes events but the newest so many. Those that nobody followed are numbered, so that whoever comes back sees that
-- some are missing.
CREATE FUNCTION windlass.prune_events_1(p_kept bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_end bigint;
    v_gone bigint;
BEGIN
    SELECT e.place INTO STRICT v_end FROM windlass.feed_end e FOR UPDATE;
    DELETE FROM windlass.events e WHERE e.pos <= (SELECT o.pos FROM windlass.events o
        ORDER BY o.pos DESC OFFSET p_kept LIMIT 1);
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    IF v_gone > 0 THEN
        UPDATE windlass.feed_end SET place = v_end + v_gone;
        DELETE FROM windlass.feed;
    ELSE
        DELETE FROM windlass.feed f WHERE f.place <= v_end - p_kept;
    END IF;
END $$;

-- Takes the settings of an epoch that a program was opened with; what it does not say stays. They count for an epoch
-- that begins with this call: whoever starts after a restore says that commits may be lost.
CREATE FUNCTION windlass.configure_1(p_now bigint, p_synchronous boolean, p_pause_max_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM windlass.take_settings_1(p_synchronous, p_pause_max_ms);
    PERFORM windlass.begin_1(p_now);
    -- Of a store that is new there was no row before.
    PERFORM windlass.take_settings_1(p_synchronous, p_pause_max_ms);
END $$;

-- Writes what is said and is not so yet; nothing is said by NULL.
CREATE FUNCTION windlass.take_settings_1(p_synchronous boolean, p_pause_max_ms bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE windlass.epoch e
       SET synchronous = coalesce(p_synchronous, e.synchronous), pause_max_ms = coalesce(p_pause_max_ms, e.pause_max_ms)
     WHERE (e.synchronous, e.pause_max_ms)
        <> (coalesce(p_synchronous, e.synchronous), coalesce(p_pause_max_ms, e.pause_max_ms));
$$;
