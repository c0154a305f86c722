# ruff: noqa: F401
"""What the forkserver imports once per sweep, so that each run starts warm. Importing must not start a thread,
touch CUDA or compute anything: every run is forked from this state."""

import PIL.JpegImagePlugin
import torch
import torch.utils.data
import torchvision
import torchvision.datasets
import torchvision.models
import torchvision.transforms.v2

import engine.data
import engine.models
import engine.run
