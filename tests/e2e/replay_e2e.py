"""replay: open loop against our server, against a plan, and against servers that are none."""
import http.server
import json
import os
import threading

from fleet import Fleet, check, free_port, write_plan


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


with Fleet() as f:
    trace = os.path.join(f.dir, "trace.jsonl")
    write_trace(trace, 30)
    f.start_serve()
    url = "http://127.0.0.1:%d" % f.port
    out = json.loads(f.ok("replay", trace, "--url", url, "--json"))
    check(out["requests"] == {"submitted": 30, "completed": 30, "rejected": 0, "failed": 0, "cancelled": 0}, out)
    check(out["client"]["output_tokens"] == 120 and out["client"]["input_tokens"] == sum(range(20, 50)), out)
    # Gaps between pieces of text: where the client was late, two tokens came in one.
    check(out["ttft_ms"]["count"] == 30 and 60 <= out["itl_ms"]["count"] <= 90, out)
    check(out["ttft_ms"]["p50"] <= out["e2e_ms"]["p50"], out)
    check(1.4 < out["client"]["wall_s"], "the last request is sent at its time")

    predicted = {"ttft_ms": {"p50": 10.0, "p99": 20.0}, "throughput": {"output_tokens_per_s": 80.0}}
    plan = write_plan(os.path.join(f.dir, "plan.json"), 1, predicted=predicted)
    out = json.loads(f.ok("replay", trace, "--url", url + "/v1", "--speed", "4", "--max-requests", "5",
                          "--against", plan, "--json"))
    check(out["requests"]["submitted"] == 5, out)
    rows = {row["metric"]: row for row in out["against"]}
    check(rows["TTFT p50 (ms)"]["predicted"] == 10.0 and rows["TTFT p50 (ms)"]["measured"] > 0, rows)
    check(rows["ITL p50 (ms)"]["predicted"] is None, rows)
    text = f.ok("replay", trace, "--url", url, "--max-requests", "3", "--against", plan)
    check("predicted" in text and "TTFT" in text and "send delay" in text, text)

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
    other.shutdown()
print("replay: passed")
