-- Tells idle workers of new messages, whoever inserts them.
CREATE OR REPLACE FUNCTION nurse_tour_announce() RETURNS trigger
    LANGUAGE plpgsql
AS $announce$
BEGIN
    NOTIFY nurse_tour;
    RETURN NULL;
END
$announce$;
CREATE OR REPLACE TRIGGER nurse_tour_announce AFTER INSERT ON whatsapp_inbound_messages
    FOR EACH STATEMENT EXECUTE FUNCTION nurse_tour_announce()
