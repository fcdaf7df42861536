"""The small files that the golden runs read: good ones, and one for each kind of bad input."""
import gzip
import json

G70 = {"model": "llama-3.1-70b", "instance_type": "g6.xlarge"}


def with_changes(base, changes):
    made = json.loads(json.dumps(base))
    made.update(changes)
    return {key: value for key, value in made.items() if value is not None}


def synth(**changes):
    return with_changes({
        "schema": "orrery.synth.v1", "requests": 60, "arrivals": {"process": "poisson", "rate_per_s": 2},
        "tenants": [{"name": "a", "input_tokens": 200, "output_tokens": 40}]}, changes)


def scenario(**changes):
    return with_changes({
        "schema": "orrery.scenario.v1", "name": "test",
        "fleet": [{"name": "main", "model": "llama-3.1-8b", "instance_type": "g6.xlarge", "replicas": 2}],
        "workload": {"synth": synth()}, "slo": {"ttft_ms": {"p99": 60000}},
        "variants": [{"name": "one", "patch": {"fleet": [
            {"name": "main", "model": "llama-3.1-8b", "instance_type": "g6.xlarge", "replicas": 1}]}}]}, changes)


def fleet(**changes):
    return [with_changes(scenario()["fleet"][0], changes)]


def request(**changes):
    return with_changes({
        "schema": "orrery.request.v1", "name": "test", "models": [{"id": "llama-3.1-8b"}],
        "slo": {"ttft_ms": {"p95": 1500}, "tpot_ms": {"p95": 60}, "goodput": 0.9},
        "constraints": {"instance_types": ["g4dn.xlarge", "g6e.xlarge", "p5.4xlarge", "p5e.48xlarge"],
                        "tp": [1]}}, changes)


def plan(**changes):
    return with_changes({
        "schema": "orrery.plan.v1",
        "pools": [{"name": "main", "model": "embedded", "instance_type": "cpu-local", "replicas": 2}]}, changes)


def pool(**changes):
    return [with_changes(plan()["pools"][0], changes)]


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def azure_trace(rows=400, gap_ms=120):
    text = AZURE
    for i in range(rows):
        ms = i * gap_ms
        text += (f"2026-01-01 00:{ms // 60000:02d}:{ms // 1000 % 60:02d}.{ms % 1000:03d}0000,"
                 f"{200 + i * 37 % 900},{20 + i * 13 % 180}\n")
    return text


def own_trace(rows=40, gap_s=0.25, input_tokens=50, output_tokens=5):
    lines = ['{"schema": "orrery.trace.v1"}']
    lines += [json.dumps({"arrival_s": i * gap_s, "input_tokens": input_tokens, "output_tokens": output_tokens})
              for i in range(rows)]
    return "\n".join(lines) + "\n"


def cut_gzip():
    packed = gzip.compress(own_trace(4000).encode(), mtime=0)
    return packed[:len(packed) // 2]


# Traces that no command reads: file name, content.
BAD_TRACES = {
    "unknown-format": ("t.csv", "input_length,output_length\n5,6\n"),
    "bad-rows": ("t.csv", AZURE + "2024-05-10 00:00:00.0000000,10,5\n" * 99 + "x,1,5\n" * 2),
    "broken-json-line": ("t.jsonl", own_trace(3) + '{"arrival_s": 1, "input_tokens": \n'),
    "truncated-gzip": ("t.jsonl.gz", cut_gzip()),
    "empty-file": ("t.jsonl", ""),
    "binary": ("t.bin", bytes(range(256)) * 8),
}
BROKEN_JSON = '{\n "schema": "orrery.scenario.v1",\n "name": "broken",\n "fleet": [}\n'
