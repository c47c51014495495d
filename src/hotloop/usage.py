"""What the command line says of itself: the verbs, and the page of each. Options of a run are in help.py."""

from __future__ import annotations

USAGE = """hotloop: deep Q-learning at the speed the machine allows

  hotloop train WORKLOAD [options]   train; WORKLOAD is a world, a Gymnasium id or module:factory
  hotloop resume RUN                 go on from the newest checkpoint, bit for bit where the environment allows
  hotloop eval RUN                   play greedily with the weights of a run
  hotloop play WORKLOAD              play with --policy random, heuristic or a run's folder
  hotloop doctor WORKLOAD            where the time of a run goes, and what each change would really give
  hotloop doctor script.py -- ARGS   the same for anybody's DQN script, unedited
  hotloop tune-system WORKLOAD       choose lanes, workers and threads for this machine, at the same samples per step
  hotloop report RUN…                one HTML page about one run or several
  hotloop compare RUN…               settings against each other: scores, curves, speeds, with intervals over seeds
  hotloop bench [STAGE…]             what was measured, against rivals too; or measure stages anew
  hotloop search WORKLOAD            hyper-parameters by trial, several seeds each (an extra)
  hotloop list                       worlds, presets, networks, heads, variants, samplers

Each has --help. `hotloop train WORKLOAD --help` shows every option with its value for that workload."""

HELP = {
    "train": """hotloop train WORKLOAD [options]

  --run DIR            run folder (default: runs/WORKLOAD-sSEED-N)
  --preset NAME        a preset of the workload (hotloop list)
  --config FILE.toml   options from a file, over the preset and under the flags
  --env-steps N        same as --total-env-steps
  --seeds N            train N agents at once in this process, seeds --seed … --seed + N - 1, each with a run folder in
                       that of all (default: runs/WORKLOAD-sFIRSTtoLAST-N)
  --variant NAME --network NAME|module:name --head NAME    choose parts
  --sampler NAME|module:name                               choose how transitions are chosen
  --quiet              nothing but warnings
  --json               quiet, and the summary as one JSON object on the last line of stdout
""",
    "resume": """hotloop resume RUN [--env-steps N] [--quiet] [--json]

Go on from the newest sound checkpoint of RUN. --env-steps extends the budget. The folder of several seeds goes on with
all of them at once; that of one seed inside it goes on with that seed alone.""",
    "eval": """hotloop eval RUN [--episodes N] [--seed N] [--render] [--json]

Greedy episodes with the weights of RUN, on seeds that training never used; mean with 95 % interval.""",
    "play": """hotloop play WORKLOAD --policy random|heuristic|RUN [--episodes N] [--seed N] [--render | --gif OUT.gif]
             [--json] [--env.OPTION VALUE …]

Whole episodes with a reference policy, or with the weights of a run; mean with 95 % interval. --render draws them as
text, --gif films them where the world has pictures.""",
    "doctor": """hotloop doctor WORKLOAD [options of train] [--only NAME,NAME] [--rounds N] [--seconds S] [--trace FILE]
               [--json]
hotloop doctor WORKLOAD --cprofile FILE | --torch-profile FILE
hotloop doctor script.py [--duration S] [--python PATH] [--json] [--html FILE] [-- arguments of the script]

A workload: a table of where each cycle goes, then one change after another, in turns with the settings as they are:
what it gave (median and 95 % interval over --rounds slices of --seconds), what its share of the time let expect, and
what it does to learning. Always a Chrome trace (--trace, default hotloop-doctor-trace.json).

A script: run in a process of its own under probes for --duration seconds, several times; what it does in numbers, where
its time goes, and findings with file and line, each tried where that needs no editing.
Exit codes: 0 examined, 2 cannot be run, 3 no env step and no update was seen, 4 the script failed first.""",
    "tune-system": """hotloop tune-system WORKLOAD [options of train] [--out FILE.toml] [--rounds N] [--seconds S]

Tries overlap, threads, workers, lanes and the length of a cycle in turns with the best so far, at fixed samples per
step, and writes what was faster beyond doubt to a file that `train --config` takes (default tuned-WORKLOAD.toml).""",
    "report": "hotloop report RUN [RUN …] [--out FILE.html]\n\nOne page that opens from disk and fetches nothing.",
    "compare": """hotloop compare RUN [RUN …] [--threshold X] [--measure NAME] [--html FILE] [--json]

Runs that differ by their seed alone are one side; sides are compared within a workload, each with the first that is
named. Final greedy scores (mean, interquartile mean, 95 % bootstrap interval over seeds), difference and probability of
improvement, curves over env steps and over seconds of training, env steps/s beside samples per step; what is not like
for like is said. --threshold: env steps and seconds until it was first met. --measure: a measure of the world (such as
score) in place of the return. --html: the same and the curves as one page. A folder of many seeds is its
runs.""",
    "bench": """hotloop bench [STAGE …] [--all] [--quick]

The results that the repository keeps, each with machine, commit and command; losses too. With names of stages: measure
those, against the rivals whose environments `make bench-setup` has made; --all: every stage, which takes hours;
--quick: only that they run. In a clone of the repository, for the benchmarks are not installed.""",
    "search": """hotloop search WORKLOAD [options of train] [--trials N] [--seeds N] [--minutes M] [--measure NAME]
               [--vary OPTION=LOW..HIGH,OPTION=A|B] [--out FILE.toml]

Settings tried one after another by optuna, --seeds runs each (default 3), every run with the same budget of env steps;
the settings as they are come first. Bad trials are given up after fewer seeds; no trial begins after --minutes. Varied
unless --vary says otherwise: learning rate, gamma, decay of epsilon, target interval, n-step. The best is judged again
on seeds that chose nothing, and written to a file that `train --config` takes (default found-WORKLOAD.toml).""",
    "list": "hotloop list [--json]\n\nWorlds with their presets, networks, heads, variants, samplers.",
}
