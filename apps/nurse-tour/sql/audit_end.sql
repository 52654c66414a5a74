INSERT INTO nurse_tour_audit (message_sid, at, worker, fence, from_stage, to_stage, from_status, to_status, attempt, outcome, reason)
SELECT w.message_sid, w.wl_now, w.wl_owner, w.fence,
       CASE w.wl_outcome WHEN 'completed' THEN 'DOC_CREATED' ELSE coalesce(w.current_stage, 'RECEIVED') END,
       coalesce(w.current_stage, 'RECEIVED'), w.wl_from, w.processing_status,
       -- A try that ended well is not among those that count.
       w.retry_count + CASE w.wl_outcome WHEN 'completed' THEN 1 ELSE 0 END, w.wl_outcome, w.wl_error
  FROM written w
