-- Claims that limits, budgets or crossed keys bound are picked by windlass_core::pick, between two calls of one
-- transaction: windlass.survey_1 and windlass.claim_3. Programs of the fourteenth schema that are running go on: their
-- claims are claim_2 and what that calls, which stays as it is until the schema after this one takes it away, together
-- with the arithmetic of budgets in SQL.

-- What programs of the thirteenth schema read and called, and nobody else does.
DROP VIEW windlass.claims;
DROP FUNCTION IF EXISTS windlass.complete_2(bigint, uuid[], bigint[], text[], uuid[], bigint[], bigint[], integer[]);
DROP FUNCTION IF EXISTS windlass.complete_open_2(bigint, bigint[], bigint[], text[], bigint[], integer[]);
DROP FUNCTION IF EXISTS windlass.complete_rows_1(bigint, bigint[], bigint[], text[]);

-- Budgets that nobody has defined make no gates any more: what names them stands at gates with others, and is moved
-- when somebody defines one (windlass.regate_1). So a key may be ready at two gates with the same label.
DROP INDEX windlass.ready_keys;
CREATE INDEX ready_keys ON windlass.ready (key, label) WHERE key IS NOT NULL;
