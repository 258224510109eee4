"""One state, several tries at once, the best one kept.

A sandbox is prepared once. Its forks start where it is, each with an idea of its
own; all of them run at the same time and none sees the others. What the best one
has changed is merged back.
"""

import asyncio

from carrel import AsyncSandbox

# Ideas for the same job: the sum of 1 to N. Two are right, one is quick.
IDEAS = {
    "loop": "i=0 s=0; while [ $i -lt $1 ]; do i=$((i+1)) s=$((s+i)); done; "
            "echo $s",
    "formula": "echo $(($1 * ($1 + 1) / 2))",
    "hasty": "echo $(($1 * $1 / 2))",
}
CHECK = """for n in 0 1 2 10 50000; do
    want=$(seq $n | awk '{ s += $1 } END { print s + 0 }')
    [ "$(sh sum.sh $n)" = "$want" ] || { echo "wrong for $n"; exit 1; }
done
"""


async def attempt(fork, idea):
    """The processor time of a try that works, or None."""
    await fork.files.write("sum.sh", IDEAS[idea] + "\n")
    r = await fork.run("sh check.sh", timeout=60)
    if not r.ok:
        print(f"{idea}: {r.stdout.strip() or 'failed'}")
        return None
    used = (await fork.info()).usage["cpu_us"]
    print(f"{idea}: right, {used // 1000} ms of a processor")
    return used


async def main():
    async with await AsyncSandbox.create(
            timeout="10m", files={"check.sh": CHECK}) as box:
        forks = await box.fork(len(IDEAS), timeout="5m")
        try:
            scores = await asyncio.gather(*map(attempt, forks, IDEAS))
            works = [(s, f, i) for s, f, i in zip(scores, forks, IDEAS)
                     if s is not None]
            _, best, idea = min(works, key=lambda w: w[0])
            await box.merge(best, paths=["/home/user"])
        finally:
            await asyncio.gather(*(f.kill() for f in forks))
        r = await box.run("sh sum.sh 100", check=True)
        print(f"picked {idea}: the sum of 1 to 100 is {r.stdout.strip()}")


if __name__ == "__main__":
    asyncio.run(main())
