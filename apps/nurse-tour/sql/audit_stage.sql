INSERT INTO nurse_tour_audit (message_sid, at, worker, fence, from_stage, to_stage, from_status, to_status, attempt, outcome,
                              provider, model, prompt_sha256, input_sha256, output_sha256, bytes, duration_ms)
SELECT w.message_sid, w.wl_now, w.locked_by, w.fence, coalesce(w.wl_from, 'RECEIVED'), {to}, w.processing_status,
       w.processing_status, w.retry_count, 'stage', a ->> 'provider', a ->> 'model', a ->> 'prompt', a ->> 'in', a ->> 'out',
       (a ->> 'bytes')::bigint, (a ->> 'ms')::bigint
  FROM written w CROSS JOIN LATERAL (SELECT w.wl_output -> 'audit') AS x (a)
