"""serve: answers streamed and whole, errors, metrics, cancellation, draining, journals."""
import http.client
import json
import os
import socket
import time

from fleet import Fleet, check, stop_signal, wait_until


def answers(f):
    whole = f.complete(max_tokens=6, temperature=0, ignore_eos=True)
    check(whole["object"] == "text_completion" and whole["usage"]["completion_tokens"] == 6, whole)
    check(whole["choices"][0]["finish_reason"] == "length", whole)
    again = f.complete(max_tokens=6, temperature=0, ignore_eos=True)
    check(whole["choices"][0]["text"] == again["choices"][0]["text"], "greedy answers are equal")
    check(whole["id"] != again["id"], "ids differ")

    events = f.stream(prompt="Hello", max_tokens=6, temperature=0, ignore_eos=True)
    text = "".join(e["choices"][0]["text"] for e in events)
    check(text == whole["choices"][0]["text"], "streamed and whole text are equal")
    check(len({e["id"] for e in events}) == 1, "one id")
    check(events[-1]["choices"][0]["finish_reason"] == "length", events[-1])

    chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "temperature": 0, "ignore_eos": True}
    events = f.stream("/v1/chat/completions", stream_options={"include_usage": True}, **chat)
    check(events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}, events[0])
    check(events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == 5, events[-1])
    check(all(e["usage"] is None for e in events[:-1]), "usage is null before the end")
    status, headers, whole = f.request("POST", "/v1/chat/completions", chat, {"X-Request-Id": "abc-1"})
    check(headers["X-Request-Id"] == "abc-1", headers)
    content = "".join(e["choices"][0]["delta"].get("content", "") for e in events[:-1])
    check(whole["choices"][0]["message"]["content"] == content, "chat: streamed equals whole")

    # A stop string is not part of the answer, and ends it.
    full = f.complete(max_tokens=24, temperature=0, ignore_eos=True)["choices"][0]["text"]
    stop = full[len(full) // 2:len(full) // 2 + 3]
    for stream in (False, True):
        body = {"prompt": "Hello", "max_tokens": 24, "temperature": 0, "ignore_eos": True, "stop": [stop]}
        if stream:
            events = f.stream(**body)
            text, reason = "".join(e["choices"][0]["text"] for e in events), events[-1]["choices"][0]["finish_reason"]
        else:
            choice = f.complete(**body)["choices"][0]
            text, reason = choice["text"], choice["finish_reason"]
        check(text == full[:full.index(stop)] and reason == "stop", (stop, full, text, reason))

    # Token ids; the second time the prefix is cached.
    ids = [5 + i % 200 for i in range(100)]
    first = f.complete(prompt=ids, max_tokens=2, ignore_eos=True)
    check(first["usage"]["prompt_tokens"] == 100, first)
    second = f.complete(prompt=ids, max_tokens=2, ignore_eos=True)
    check(second["usage"]["prompt_tokens_details"]["cached_tokens"] >= 64, second)


def refusals(f):
    def error(method, path, body=None):
        status, headers, answer = f.request(method, path, body)
        check(set(answer["error"]) == {"message", "type", "param", "code"}, answer)
        return status, answer["error"], headers

    status, e, _ = error("POST", "/v1/completions", "{not json")
    check(status == 400, e)
    status, e, _ = error("POST", "/v1/completions", {"prompt": "a", "model": "gpt-9"})
    check(status == 404 and e["code"] == "model_not_found" and e["type"] == "NotFoundError", e)
    status, e, _ = error("POST", "/v1/completions", {"prompt": [5] * 5000})
    check(status == 400 and e["code"] == "context_length_exceeded", e)
    status, e, _ = error("POST", "/v1/completions", {"prompt": "a", "max_tokens": 100000})
    check(status == 400 and e["code"] == "context_length_exceeded" and e["param"] == "max_tokens", e)
    status, e, _ = error("POST", "/v1/completions", {"prompt": "a", "n": 2})
    check(status == 400 and e["param"] == "n", e)
    status, e, _ = error("POST", "/v1/completions", {"prompt": [10 ** 6]})
    check(status == 400 and e["param"] == "prompt", e)
    status, e, _ = error("GET", "/v1/nothing")
    check(status == 404, e)
    status, e, headers = error("GET", "/v1/completions")
    check(status == 405 and headers["Allow"] == "POST", e)
    status, e, _ = error("GET", "/v1/models/nope")
    check(status == 404, e)
    status, e, _ = error("POST", "/v1/completions", b"x" * (9 << 20))
    check(status == 413, e)


def facts(f):
    status, _, models = f.request("GET", "/v1/models")
    model = models["data"][0]
    check(model["id"] == "orrery-embedded" and "random" in model["note"], model)
    check(f.request("GET", "/v1/models/orrery-embedded")[2] == model, "one model")
    check(f.request("GET", "/health")[0] == 200, "health")
    check(f.request("GET", "/health/ready")[0] == 200, "ready")
    check("version" in f.request("GET", "/version")[2], "version")
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc",
                 "prefix_cache_queries_total", "prefix_cache_hits_total", "prompt_tokens_total",
                 "generation_tokens_total", "request_success_total", "time_to_first_token_seconds_count",
                 "inter_token_latency_seconds_count", "e2e_request_latency_seconds_count"):
        check(f.metric("vllm:" + name) == f.metric("orrery_" + name), name)
    check(f.metric("vllm:generation_tokens_total") > 20, "tokens are counted")
    check(f.metric("vllm:prefix_cache_hits_total") >= 64, "hits are counted")


def keep_alive(f):
    """Many requests over one connection; two pipelined ones are both answered."""
    c = http.client.HTTPConnection("127.0.0.1", f.port, timeout=60)
    for _ in range(50):
        c.request("GET", "/version")
        check(c.getresponse().read(), "an answer")
    c.close()
    s = socket.create_connection(("127.0.0.1", f.port), timeout=60)
    s.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
    got = b""
    while got.count(b"200 OK") < 2:
        part = s.recv(4096)
        check(part, "both pipelined requests are answered")
        got += part
    s.close()


def cancellation(f):
    """A client that goes away takes its request with it: streaming, whole, and still queued."""
    for stream in (True, False):
        before = f.metric("orrery_request_success_total")
        s = f.open_request(max_tokens=900, stream=stream)
        wait_until(lambda: f.busy() > 0, "it runs")
        s.close()
        wait_until(lambda: f.busy() == 0, "its tokens are no longer computed", 5)
        check(f.metric("orrery_gateway_requests_in_flight") == 0, "the gateway let go")
        aborted = f.metric('orrery_request_success_total') - before
        check(aborted == 1, "counted as aborted")
    many = [f.open_request(max_tokens=900, stream=True) for _ in range(40)]  # 2 x 16 run
    wait_until(lambda: f.metric("orrery_num_requests_waiting") > 0, "some wait")
    for s in many:
        s.close()
    wait_until(lambda: f.busy() == 0, "queued ones are cancelled too", 10)
    f.complete(max_tokens=2)


def draining(f):
    """Ctrl-C: what runs is finished, what is new hears 503, then everything ends."""
    run_dir = f.run_dir()
    check(json.loads(f.run("journal", "verify", run_dir, "--json")[1])["ok"], "a live run verifies")
    pids = [w["pid"] for w in f.workers()]
    s = f.open_request(max_tokens=300, stream=True, temperature=0)
    got = s.recv(4096)
    check(b"200 OK" in got, got)
    stop_signal(f.serve)
    wait_until(lambda: f.request("GET", "/health")[0] == 503, "it is draining", 10)
    status, headers, answer = f.request("POST", "/v1/completions", {"prompt": "a"})
    check(status == 503 and headers["Retry-After"], answer)
    while True:
        part = s.recv(65536)
        if not part:
            break
        got += part
    check(b"[DONE]" in got and b'"finish_reason":"length"' in got, "the running answer was finished")
    check(f.serve.wait(30) == 0, "serve ends with 0")
    for pid in pids:
        check(not os.path.exists("/proc/%d" % pid), "worker %d is gone" % pid)
    verdict = f.verify(run_dir)
    check(not verdict["running"] and verdict["confirmed"] == verdict["placements"] > 50, verdict)
    check(f.run("status")[0] == 1, "nothing runs")
    check(f.run("stop")[0] == 0, "stop is idempotent")
    return run_dir, verdict


def altered(f, run_dir):
    """One altered record is refused, and named."""
    path = os.path.join(run_dir, "worker-1.journal")
    data = bytearray(open(path, "rb").read())
    data[len(data) // 2] ^= 1
    open(path, "wb").write(data)
    code, out, _ = f.run("journal", "verify", run_dir)
    check(code == 1 and "worker-1.journal: record " in out, out)
    code, out, _ = f.run("journal", "verify", path, "--json")
    check(code == 1 and json.loads(out)["bad_record"] > 0, out)


with Fleet() as f:
    f.start_serve("--workers", "2", "--vllm-metrics")
    answers(f)
    refusals(f)
    facts(f)
    keep_alive(f)
    cancellation(f)
    run_dir, _ = draining(f)
    altered(f, run_dir)
print("serve: passed")
