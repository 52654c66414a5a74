SELECT windlass.save_1($1, $2::text::json, $3::text::json)::text
