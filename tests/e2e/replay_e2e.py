"""replay: open loop against our server, against a plan, and against servers that are none."""
import http.server
import json
import os
import threading
import time

from fleet import Fleet, check, free_port, write_plan


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def write_trace(path, rows):
    with open(path, "w") as f:
        for i in range(rows):
            f.write(json.dumps({"arrival_s": i * 0.05, "input_tokens": 20 + i, "output_tokens": 4}) + "\n")


class TextOnly(http.server.BaseHTTPRequestHandler):
    """A server of another make: no token ids, no usage, a chunk a token."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(200, b'{"object":"list","data":[{"id":"other"}]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not isinstance(body["prompt"], str):
            self.send(400, b'{"error":{"message":"text only","type":"x","param":null,"code":null}}')
            return
        event = b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'
        self.send(200, event * body["max_tokens"] + b"data: [DONE]\n\n", "text/event-stream")


class Flaky(TextOnly):
    """Of ten: the third ends with an error before any text, the sixth is an HTTP 500, the ninth is
    cut after five tokens."""
    count, lock = 0, threading.Lock()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["max_tokens"] == 1:  # the probe for token ids
            self.send(200, b"{}")
            return
        with Flaky.lock:
            number, Flaky.count = Flaky.count % 10, Flaky.count + 1
        event = b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'
        if number == 2:
            self.send(200, b'data: {"error":{"type":"overloaded"}}\n\ndata: [DONE]\n\n', "text/event-stream")
        elif number == 5:
            self.send(500, b"{}")
        elif number == 8:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", "100000")
            self.end_headers()
            for _ in range(5):
                self.wfile.write(event)
                time.sleep(0.02)
            self.close_connection = True
        else:
            self.send(200, event * body["max_tokens"] + b"data: [DONE]\n\n", "text/event-stream")


def plan_with_slo(f):
    return write_plan(os.path.join(f.dir, "slo.json"), 1, slo={"ttft_ms": {"p95": 60000}},
                      predicted={"ttft_ms": {"p50": 10.0}})


def missing_keys(shape, result, at=""):
    """Keys of `shape`, at every depth where both are objects, that `result` lacks."""
    # What says more about a simulation, and notes that stand only where they are true.
    for key, value in shape.items():
        where = at + "/" + key
        if where in ("/name", "/schema", "/slo", "/variant", "/scenario", "/workload/offered_requests_per_s", "/cost/unpriced",
                     "/workload/failed_in_trace_skipped", "/workload/warnings") or key == "note" or at == "/by":
            continue
        if key not in result:
            yield where
        elif isinstance(value, dict) and isinstance(result[key], dict):
            yield from missing_keys(value, result[key], where)


with Fleet() as f:
    trace = os.path.join(f.dir, "trace.jsonl")
    write_trace(trace, 30)
    f.start_serve()
    url = "http://127.0.0.1:%d" % f.port
    out = json.loads(f.ok("replay", trace, "--url", url, "--json"))
    check(out["requests"] == {"submitted": 30, "completed": 30, "rejected": 0, "failed": 0, "cancelled": 0,
                              "unfinished": 0}, out)
    # A client does not know what stands in the server: null, and a key all the same.
    check(out["gpu"]["busy_fraction"] is None and out["cost"]["usd_per_hour"] is None, out)
    check(out["goodput"]["fraction"] is None and out["completed_fraction"] == 1, out)
    check(out["kv"]["hit_rate"] is not None, "our server counts cached tokens")
    check(out["ttft_ms"]["note"] == "p99 is the maximum of 30 values", out["ttft_ms"])
    check(out["client"]["output_tokens"] == 120 and out["client"]["input_tokens"] == sum(range(20, 50)), out)
    # Gaps between pieces of text: where the client was late, two tokens came in one.
    check(out["ttft_ms"]["count"] == 30 and 60 <= out["itl_ms"]["count"] <= 90, out)
    check(out["ttft_ms"]["p50"] <= out["e2e_ms"]["p50"], out)
    check(1.4 < out["client"]["wall_s"], "the last request is sent at its time")

    # The keys that every measured result has.
    scenario = os.path.join(ROOT, "scenarios", "whatif", "llama8b-l4-vs-h100.json")
    shape = json.loads(f.ok("simulate", scenario, "--json"))
    missing = list(missing_keys(shape["variants"][0] if "variants" in shape else shape, out))
    check(not missing, "keys that the twin has and the client lacks: %s" % missing)

    predicted = {"ttft_ms": {"p50": 10.0, "p99": 20.0}, "throughput": {"output_tokens_per_s": 80.0}}
    plan = write_plan(os.path.join(f.dir, "plan.json"), 1, predicted=predicted)
    out = json.loads(f.ok("replay", trace, "--url", url + "/v1", "--speed", "4", "--max-requests", "5",
                          "--against", plan, "--json"))
    check(out["requests"]["submitted"] == 5, out)
    check(out["against"]["refused"] is None, out["against"])
    rows = {row["metric"]: row for row in out["against"]["metrics"]}
    check(rows["TTFT p50 (ms)"]["predicted"] == 10.0 and rows["TTFT p50 (ms)"]["measured"] > 0, rows)
    check(rows["ITL p50 (ms)"]["predicted"] is None, rows)
    text = f.ok("replay", trace, "--url", url, "--max-requests", "3", "--against", plan)
    check("predicted" in text and "TTFT" in text and "send delay" in text, text)
    check(text.startswith("completed 100") and "3 completed of 3 sent, a slice" in text, text)

    # The plan is about more requests than were sent: no comparison, unless a slice was asked for.
    big = write_plan(os.path.join(f.dir, "big.json"), 1, slo={"ttft_ms": {"p95": 60000}},
                     predicted={"requests": {"submitted": 1000}, **predicted})
    code, text, _ = f.run("replay", trace, "--url", url, "--speed", "8", "--against", big)
    check(code == 1 and "not compared with" in text and "30 of 1,000" in text and "95" in text, text)
    check("goodput: 100" in text, text)
    text = f.ok("replay", trace, "--url", url, "--max-requests", "3", "--against", big)
    check("the prediction is of 1,000 requests" in text, text)

    # Every request refused: the answer is no.
    code, out, _ = f.run("replay", trace, "--url", url, "--model", "nope", "--max-requests", "2", "--json")
    check(code == 1 and json.loads(out)["errors"] == {"HTTP 404 model_not_found": 2}, out)
    check(f.run("replay", trace, "--url", "http://127.0.0.1:%d" % free_port())[0] == 2, "nobody there")
    check(f.run("replay", trace, "--url", "https://127.0.0.1")[0] == 3, "TLS is not there yet")
    check(f.run("replay", trace, "--url", "ftp://x")[0] == 2, "not a URL")
    check(f.run("replay", f.dir + "/none", "--url", url)[0] == 2, "no trace")
    check(f.run("replay", trace, "--url", url, "--speed", "0")[0] == 2, "speed 0")

    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TextOnly)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    out = json.loads(f.ok("replay", trace, "--url", "http://127.0.0.1:%d" % other.server_port,
                          "--max-requests", "4", "--json"))
    check(out["requests"]["completed"] == 4 and out["client"]["output_tokens"] == 16, out)
    check(out["model"] == "other", out)
    check(out["kv"]["hit_rate"] is None, "this server does not say what was cached")
    other.shutdown()

    # Ten requests: seven good, one with an error before its first token, one HTTP 500, one cut.
    flaky = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=flaky.serve_forever, daemon=True).start()
    at = ("--url", "http://127.0.0.1:%d" % flaky.server_port, "--against", plan_with_slo(f))
    code, out, _ = f.run("replay", trace, *at, "--max-requests", "10", "--json")
    out = json.loads(out)
    check(code == 1 and out["requests"] == {"submitted": 10, "completed": 7, "rejected": 0, "failed": 2,
                                            "cancelled": 0, "unfinished": 1}, out)
    check(out["ttft_ms"]["count"] == 7 and out["itl_ms"]["count"] == 21, "gaps of the seven only")
    check(out["goodput"]["fraction"] == 0.7 and out["completed_fraction"] == 0.7, out["goodput"])
    check(out["client"]["unfinished_output_tokens"] == 5 and out["client"]["output_tokens"] == 28, out)
    check(out["against"]["metrics"] is None and "70" in out["against"]["refused"], out["against"])
    text = f.run("replay", trace, *at, "--max-requests", "10")[1]
    check(text.startswith("completed 70") and "2 failed, 1 unfinished" in text, text)
    check("1 x HTTP 500" in text and "not compared with" in text, text)
    flaky.shutdown()
print("replay: passed")
