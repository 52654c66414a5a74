SELECT id, fence, cancel_requested FROM windlass.renew_1($1, $2, $3)
