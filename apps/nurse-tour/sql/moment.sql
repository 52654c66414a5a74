-- A moment from text in any form that Postgres reads, in UTC when it has no zone; NULL when it is none.
CREATE OR REPLACE FUNCTION nurse_tour_moment(text) RETURNS timestamptz
    LANGUAGE plpgsql STABLE STRICT SET timezone = 'UTC' SET datestyle = 'ISO, YMD'
AS $moment$
BEGIN
    RETURN $1::timestamptz;
EXCEPTION WHEN others THEN
    RETURN NULL;
END
$moment$
