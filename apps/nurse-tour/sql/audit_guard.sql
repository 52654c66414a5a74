-- The audit only grows: a line that was written is never changed and never deleted.
CREATE OR REPLACE FUNCTION nurse_tour_audit_is_append_only() RETURNS trigger
    LANGUAGE plpgsql
AS $guard$
BEGIN
    RAISE EXCEPTION 'nurse_tour_audit only grows: % is refused', TG_OP;
END
$guard$;
CREATE OR REPLACE TRIGGER nurse_tour_audit_guard BEFORE UPDATE OR DELETE OR TRUNCATE ON nurse_tour_audit
    FOR EACH STATEMENT EXECUTE FUNCTION nurse_tour_audit_is_append_only()
