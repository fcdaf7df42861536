"""Bad input to the live commands: each mistake is named with its place, and the exit code says whose it is."""
import json
import os
import shutil

from fleet import Fleet, check, free_port, write_plan

SHARED = os.environ.get("ORRERY_SHARED", os.path.join(os.path.dirname(__file__), "../../../shared"))
CHECKPOINT = os.path.abspath(os.path.join(SHARED, "models/stories260K"))


def refused(f, code, args, *says):
    got, out, err = f.run(*args)
    check(got == code, "%s: exit code %d, not %d\n%s%s" % (" ".join(args), got, code, out, err))
    for part in says:
        check(part in err, "%s: %r is not in:\n%s" % (" ".join(args), part, err))
    check("terminate called" not in err and "internal" not in err, err)


def write(f, name, text):
    path = os.path.join(f.dir, name)
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return path


def journals(f):
    missing, other = os.path.join(f.dir, "none.journal"), write(f, "other.txt", "not a journal at all")
    empty = write(f, "empty.journal", "")
    folder = os.path.join(f.dir, "folder")
    os.mkdir(folder)
    for command in ("verify", "dump"):
        refused(f, 2, ("journal", command, missing), missing)
        refused(f, 2, ("journal", command, other), other, "ORRJRNL1")
        refused(f, 2, ("journal", command, empty), empty, "ORRJRNL1")
    refused(f, 2, ("journal", "verify", folder), "fleet.json")
    refused(f, 2, ("journal", "dump", folder), folder)
    write(f, "folder/fleet.json", "{")
    refused(f, 2, ("journal", "verify", folder), "fleet.json")


def cut_journal(f):
    """A journal cut in the middle of a record: named when its process ended well, and never a crash."""
    f.start_serve()
    run_dir = f.run_dir()
    f.complete(max_tokens=4)
    f.ok("stop")
    f.serve.wait(30)
    f.verify(run_dir)
    path = os.path.join(run_dir, "gateway.journal")
    data = open(path, "rb").read()
    cut = write(f, "cut.journal", data[:-5])
    code, out, _ = f.run("journal", "verify", cut)
    check(code == 1 and cut in out and "a record cut short" in out and "not verified" in out, (code, out))
    refused(f, 2, ("journal", "dump", cut), cut, "a record cut short")
    open(path, "wb").write(data[:-5])
    code, out, err = f.run("journal", "verify", run_dir)
    check(code in (1, 2) and "a record cut short" in out + err, (code, out, err))
    os.remove(path)
    refused(f, 2, ("journal", "verify", run_dir), "gateway.journal")


def plans(f):
    pool = {"name": "main", "model": "embedded", "instance_type": "cpu-local", "replicas": 1}
    good = {"schema": "orrery.plan.v1", "pools": [pool]}
    cases = [
        (os.path.join(f.dir, "missing.json"), ("missing.json",)),
        (write(f, "broken.json", '{"schema": "orrery.plan.v1",\n "pools": [}'), ("broken.json:2",)),
        (write(f, "request.json", json.dumps({"schema": "orrery.request.v1", "models": ["embedded"],
                                              "objective": "cost"}, indent=1)),
         ("request.json:2", "schema", "orrery.request.v1", "orrery.plan.v1")),
        (write(f, "no_schema.json", '{"pools": []}'), ("no_schema.json", "schema")),
        (write(f, "typo.json", json.dumps(dict(good, pools=[dict(pool, replica=2)]))), ("replica", "replicas")),
        (write(f, "few.json", json.dumps(dict(good, pools=[dict(pool, replicas=-1)]))), ("replicas", "-1")),
        (write(f, "setting.json", json.dumps(dict(good, pools=[dict(pool, settings={"kv_block": 9})]))),
         ("setting.json:1", "kv_block")),
    ]
    for path, says in cases:
        for command in ("deploy", "serve"):
            refused(f, 2, (command, path), *says)
    check(f.status()["runs"] is False, "nothing was started")


def replays(f):
    nobody = "http://127.0.0.1:%d" % free_port()
    trace = write(f, "t.jsonl", '{"arrival_s": 0, "input_tokens": 9, "output_tokens": 2}\n')
    plan = write_plan(os.path.join(f.dir, "p.json"), 1)
    refused(f, 2, ("replay", os.path.join(f.dir, "no.jsonl"), "--url", nobody), "no.jsonl")
    refused(f, 2, ("replay", write(f, "x.bin", b"\x00\x01\x02"), "--url", nobody), "x.bin")
    refused(f, 2, ("replay", trace, "--url", nobody, "--format", "nope"), "nope")
    refused(f, 2, ("replay", trace, "--url", nobody, "--against", os.path.join(f.dir, "no.json")), "no.json")
    refused(f, 2, ("replay", trace, "--url", nobody, "--against", trace), "t.jsonl", "schema")
    refused(f, 2, ("replay", trace, "--url", nobody, "--against", plan), "p.json", "predicted")
    refused(f, 2, ("replay", trace, "--url", nobody), nobody, "Connection refused")


def dead_workers():
    """A worker that dies at its start: how it ended and the last lines of its log are in the message."""
    with Fleet() as f:
        bad = write_plan(os.path.join(f.dir, "bad.json"), 1, settings={"kv_blocks": 512, "block_tokens": 16,
                                                                       "order": "no_such_order"})
        code, out, err = f.run("deploy", bad, "--port", str(f.port))
        check(code == 2 and "no_such_order" in err, (code, out, err))
        huge = write_plan(os.path.join(f.dir, "huge.json"), 1, settings={"kv_blocks": 10 ** 12})
        for args in (("deploy", huge), ("serve", huge)):
            code, out, err = f.run(*args, "--port", str(f.port))
            check(code == 2 and "main-0 ended: exit code 2" in err and "kv_blocks" in err, (args, code, out, err))
            check("the end of its log" in err and "worker-1.log" in err, err)
        check(f.run("status")[0] == 1, "nothing runs")
    if not os.path.isdir(CHECKPOINT):
        print("bad input: no checkpoint at %s, the broken model folder is skipped" % CHECKPOINT)
        return
    with Fleet() as f:
        model = os.path.join(f.dir, "model")
        shutil.copytree(CHECKPOINT, model)
        weights = [os.path.join(model, n) for n in os.listdir(model) if n.endswith((".bin", ".safetensors"))]
        check(weights, os.listdir(model))
        for path in weights:
            data = open(path, "rb").read()
            open(path, "wb").write(data[:len(data) // 2])
        code, out, err = f.run("serve", "--model", model, "--port", str(f.port))
        check(code == 2 and model in err, (code, out, err))
        check(f.run("status")[0] == 1, "nothing runs")


with Fleet() as fleet:
    journals(fleet)
    plans(fleet)
    replays(fleet)
    cut_journal(fleet)
dead_workers()
print("bad input: passed")
