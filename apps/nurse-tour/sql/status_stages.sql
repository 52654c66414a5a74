SELECT to_stage, count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms), max(duration_ms)
  FROM nurse_tour_audit
 WHERE outcome = 'stage' AND at > now() - interval '24 hours' AND duration_ms IS NOT NULL
 GROUP BY 1
 ORDER BY array_position(ARRAY['AUDIO_STORED', 'TRANSCRIBED', 'ANALYZED', 'DOC_CREATED'], to_stage)
