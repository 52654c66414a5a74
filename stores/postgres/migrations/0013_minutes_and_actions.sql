-- Budgets have a bound per minute: windlass_core::policy::budget. Programs of the twelfth schema that are running go on: their
-- claims spend by the functions of this one, and what they set of a budget leaves its minute alone.
ALTER TABLE windlass.budgets
    ADD COLUMN per_minute    bigint,
    ADD COLUMN minute_window jsonb NOT NULL DEFAULT '[]',
    -- How often the windows were written by who knows all of them.
    ADD COLUMN writes        bigint NOT NULL DEFAULT 0;

-- What they spend by hand they write themselves, and know nothing of minutes: of a budget that has a bound per minute it is
-- refused to them, so that the bound holds.
CREATE FUNCTION windlass.refuse_spend_1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the budget has a bound per minute, which this program does not know: use a newer one'
          USING ERRCODE = 'WL006';
END $$;
CREATE TRIGGER spent_without_minutes BEFORE UPDATE OF second_window, day_window ON windlass.budgets FOR EACH ROW
    WHEN (old.per_minute IS NOT NULL AND new.writes = old.writes)
    EXECUTE FUNCTION windlass.refuse_spend_1();

-- What operators did is told among the events, as JSON: windlass_core::event::Action.
ALTER TABLE windlass.events ADD COLUMN action text;
ALTER TABLE windlass.feed ADD COLUMN action text;

-- What programs of the tenth and eleventh schemas called or left, and nobody else does.
DROP TABLE windlass.longest;
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT p.oid::regprocedure FROM pg_proc p
         WHERE p.pronamespace = 'windlass'::regnamespace
           AND (p.proname = ANY ('{claim_1,complete_1,complete_open_1,there_1,seed_1,is_new_1,gate_1,next_expiry_1,run_out_1}')
                OR p.proname = 'promote_1' AND p.pronargs = 2)
    LOOP
        EXECUTE format('DROP FUNCTION %s', f);
    END LOOP;
END $$;
