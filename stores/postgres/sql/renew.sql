SELECT id, fence, cancel_requested, still_ms, instance FROM windlass.renew_1($1, $2, $3)
