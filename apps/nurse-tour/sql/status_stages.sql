-- The newest stages of a day, up to a hundred thousand: enough to tell their times.
SELECT s.to_stage, count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY s.duration_ms),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY s.duration_ms), max(s.duration_ms)
  FROM (SELECT a.to_stage, a.duration_ms
          FROM nurse_tour_audit a
         WHERE a.outcome = 'stage' AND a.at > now() - interval '24 hours' AND a.duration_ms IS NOT NULL
         ORDER BY a.seq DESC LIMIT 100000) s
 GROUP BY 1
 ORDER BY array_position(ARRAY['AUDIO_STORED', 'TRANSCRIBED', 'ANALYZED', 'DOC_CREATED'], s.to_stage)
