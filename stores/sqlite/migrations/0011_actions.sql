-- What operators did is told among the events, as JSON: windlass_core::event::Action.
ALTER TABLE events ADD COLUMN action TEXT;
