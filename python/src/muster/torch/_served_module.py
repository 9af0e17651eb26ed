"""A model's parameters, as they are read and checked while their values are on servers."""

from __future__ import annotations

import collections
from collections.abc import Callable, ItemsView, ValuesView
from typing import Any

import torch

from muster.errors import Error, InvalidArgument


class ServedModule:
    """The parameters of a model that servers have: all that require gradients, by number.

    Whoever reads one through its module, as an attribute, by `parameters()` or by `state_dict()`, waits for its values.

    Attributes:
        parameters: by number.
        names: by number.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        """
        Raises:
            InvalidArgument: a parameter cannot be on servers.
        """
        self._module = module
        self.parameters: list[torch.nn.Parameter] = []
        self.names: list[str] = []
        for name, parameter in module.named_parameters():
            if parameter.requires_grad and parameter.numel() > 0:
                _check_served(name, parameter)
                self.parameters.append(parameter)
                self.names.append(name)
        self._number_of = {id(each): number for number, each in enumerate(self.parameters)}
        self._addresses: list[int] = []
        self._acquire: Callable[[int], None] = lambda number: None

    def watch(self, acquire: Callable[[int], None]) -> None:
        """Calls `acquire` with a parameter's number whenever somebody is about to read it. Their memory stays from now on."""
        self._acquire = acquire
        self._addresses = [each.data_ptr() for each in self.parameters]
        for owner in self._module.modules():
            if not any(id(each) in self._number_of for each in owner._parameters.values()):
                continue
            if isinstance(owner, torch.jit.ScriptModule):
                raise InvalidArgument("a script of torch.jit reads parameters by itself; give ParameterServer the module it is of")
            owner.__dict__["_parameters"] = _WaitingParameters(owner._parameters, self)
            # Some, such as LSTM, keep references to their parameters.
            owner.register_forward_pre_hook(_before_forward)
            owner._register_load_state_dict_pre_hook(_before_load, with_module=True)

    def wait(self, parameter: torch.nn.Parameter | None) -> None:
        """Blocks until the parameter, if servers have it, has the values of this step."""
        number = self._number_of.get(id(parameter))
        if number is not None:
            self._acquire(number)

    def check(self) -> None:
        """Checks that the model still has the parameters that servers have, and no others that learn.

        Raises:
            InvalidArgument: another parameter requires gradients now.
            Error: FAILED_PRECONDITION, a parameter left the model or has other memory.
        """
        found = set()
        for owner in self._module.modules():
            # Not through the dictionary's own methods, which wait.
            for name, parameter in dict.items(owner._parameters):
                if parameter is None:
                    continue
                found.add(id(parameter))
                if parameter.requires_grad and id(parameter) not in self._number_of and parameter.numel() > 0:
                    raise InvalidArgument(
                        f"parameter {self._name_in(owner, name)} learns now, but did not when the ParameterServer was made; make "
                        "it when all that will ever learn requires gradients (one without a gradient is left alone)"
                    )
        for number, parameter in enumerate(self.parameters):
            if id(parameter) not in found:
                raise Error("FAILED_PRECONDITION", f"parameter {self.names[number]} is not in the model any more")
            if parameter.data_ptr() != self._addresses[number]:
                raise _written([self.names[number]])

    def _name_in(self, owner: torch.nn.Module, name: str) -> str:
        (path,) = [path for path, each in self._module.named_modules() if each is owner]
        return f"{path}.{name}" if path else name

    def check_load(self, owner: torch.nn.Module, state: dict[str, Any], prefix: str) -> None:
        """Checks that a state which is about to be loaded into a module of the model has the values that servers have.

        Raises:
            Error: FAILED_PRECONDITION, it has others.
        """
        changed = []
        for name, parameter in owner._parameters.items():
            key = prefix + name
            if key not in state or id(parameter) not in self._number_of:
                continue
            if not torch.equal(state[key], parameter.detach()):
                changed.append(self._name_in(owner, name))
            # Also where zeros have another sign.
            state[key] = parameter.detach()
        if changed:
            raise _written(changed)


def _before_forward(module: torch.nn.Module, _: Any) -> None:
    """Waits for all that the module itself has."""
    list(module._parameters.values())


def _before_load(module: torch.nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    # A copy of the module has parameters of its own.
    if isinstance(module._parameters, _WaitingParameters):
        module._parameters.model.check_load(module, state, prefix)


class _WaitingParameters(collections.OrderedDict[str, Any]):
    """A module's parameters by name. Whoever takes one waits until it has the values of this step."""

    def __init__(self, parameters: dict[str, Any], model: ServedModule) -> None:
        self.model = model
        super().__init__(dict(parameters))

    def __getitem__(self, name: str) -> Any:
        parameter = super().__getitem__(name)
        self.model.wait(parameter)
        return parameter

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def values(self) -> Any:
        return ValuesView(self)

    def items(self) -> Any:
        return ItemsView(self)

    def copy(self) -> Any:
        return collections.OrderedDict(self.items())

    def __reduce__(self) -> Any:
        # Copies of the module have parameters of their own.
        return collections.OrderedDict, (list(self.items()),)


def _written(names: list[str]) -> Error:
    """Returns the error for values that did not come from servers."""
    return Error(
        "FAILED_PRECONDITION",
        f"{', '.join(names)} would be changed by hand, but the values are the servers', and only their optimizer changes them; load "
        "or set values before the ParameterServer is made",
    )


def _check_served(name: str, parameter: torch.nn.Parameter) -> None:
    if parameter.dtype != torch.float32 or parameter.device.type != "cpu" or parameter.layout != torch.strided:
        raise InvalidArgument(
            f"parameter {name} is {parameter.dtype} on {parameter.device}; servers take dense float32 on the CPU"
        )
