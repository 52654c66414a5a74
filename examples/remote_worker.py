"""A Windlass worker in Python, standard library only: python3 remote_worker.py http://127.0.0.1:7717"""
import json, os, socket, sys, threading, urllib.error, urllib.request, uuid

SERVER, TOKEN = sys.argv[1], os.environ.get("WINDLASS_TOKEN")
NAME = f"py@{socket.gethostname()}-{os.getpid()}"

def call(method, path, body):
    request = urllib.request.Request(SERVER + path, json.dumps(body).encode(), method=method)
    request.add_header("content-type", "application/json")
    if TOKEN:
        request.add_header("authorization", f"Bearer {TOKEN}")
    return json.load(urllib.request.urlopen(request, timeout=90))

def run(lease):
    job, fence, over = lease["job"], lease["fence"], threading.Event()
    def keep():  # A lease lasts 30 seconds; it is renewed until the job is over.
        while not over.wait(10):
            call("POST", "/v1/leases/renew", {"leases": [{"job_id": job["id"], "fence": fence}]})
    threading.Thread(target=keep, daemon=True).start()
    steps = {step["name"]: step["output"] for step in job["steps"]}
    try:
        if "double" not in steps:  # A step that was stored is not run again.
            steps["double"] = job["payload"]["n"] * 2
            call("PUT", f"/v1/jobs/{job['id']}/steps/double", {"fence": fence, "output": steps["double"]})
        result = {"outcome": "completed", "result": {"doubled": steps["double"]}}
    except Exception as error:
        result = {"outcome": "retry", "error": f"{type(error).__name__}: {error}"}
    over.set()
    call("POST", "/v1/leases/settle", {"results": [{"job_id": job["id"], "fence": fence, **result}]})

while True:
    claim = {"worker": NAME, "queues": ["default"], "kinds": ["double"], "limit": 1, "wait_ms": 30000}
    for lease in call("POST", "/v1/claim", claim | {"request_id": str(uuid.uuid4())})["leases"]:
        run(lease)
