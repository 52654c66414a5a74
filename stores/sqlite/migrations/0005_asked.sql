-- Whose request a claim was, and what it may be given: ClaimRequest::asked. What was written without it is given to
-- nobody. A program of before can still work beside this one; what it claims, it cannot ask for again by this one.
ALTER TABLE claims ADD COLUMN asked TEXT;
