-- A moment from text in any ISO form, in UTC when it has no zone; NULL when it is none. No setting of the session has
-- a say in it, so that an index may keep what it answers. The form that we write is known at a glance.
CREATE OR REPLACE FUNCTION nurse_tour_moment(said text) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT
AS $moment$
DECLARE
    clean text;
BEGIN
    IF translate(said, '123456789', '000000000') = '0000-00-00T00:00:00.000Z' THEN
        RETURN said::timestamptz;
    END IF;
    clean := replace(btrim(said, E' \t\r\n'), ',', '.');
    RETURN CASE
        WHEN clean ~ '^\d{4}-?\d\d-?\d\d$' THEN (clean || ' 00:00:00+00')::timestamptz
        WHEN clean ~* '^\d{4}-?\d\d-?\d\d[T ]\d\d:?\d\d(:?\d\d(\.\d{1,9})?)?$' THEN (clean || '+00')::timestamptz
        WHEN clean ~* '^\d{4}-?\d\d-?\d\d[T ]\d\d:?\d\d(:?\d\d(\.\d{1,9})?)? ?(Z|[+-]\d\d(:?\d\d)?)$' THEN clean::timestamptz
    END;
EXCEPTION WHEN others THEN
    RETURN NULL;
END
$moment$
