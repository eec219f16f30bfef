"""The door with a client whose WS-ReliableMessaging others wrote: gSOAP's plugin, where it is installed
(Debian: gsoap, libgsoap-dev, gcc). What is compiled here is the plugin as it is, and a main program."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from overlay import loops
from pubsub import Node
from tests.pubsub.command_process import camcast, line

GSOAP = Path("/usr/share/gsoap")
SERVICE = """
#import "soap12.h"
#import "wsrm.h"
//gsoap m service name: scores
//gsoap m service namespace: urn:scores
//gsoap m service method-header-part: score wsa5__MessageID
//gsoap m service method-header-part: score wsa5__RelatesTo
//gsoap m service method-header-part: score wsa5__To
//gsoap m service method-header-part: score wsa5__Action
//gsoap m service method-header-part: score wsrm__Sequence
//gsoap m service method-header-part: score wsrm__AckRequested
//gsoap m service method-header-part: score wsrm__SequenceAcknowledgement
//gsoap m service method-action: score urn:scores/score
int m__score(int number, struct m__scoreResponse { int unused; } *);
"""
PROGRAM = r"""
#include "soapH.h"
#include "wsrmapi.h"
#include "scores.nsmap"
#include <stdlib.h>
#include <unistd.h>

/* URL N: sends N messages in one sequence, sends again what was lost, and ends the sequence. */
int main(int argc, char **argv)
{
  struct soap *soap = soap_new();
  soap_wsrm_sequence_handle sequence;
  struct m__scoreResponse unused;
  int number;
  soap_register_plugin(soap, soap_wsa);
  soap_register_plugin(soap, soap_wsrm);
  if (soap_wsrm_create(soap, argv[1], NULL, 600000, soap_wsa_rand_uuid(soap), &sequence))
    return soap_print_fault(soap, stderr), 1;
  for (number = 1; number <= atoi(argv[2]); number++)
  {
    if (soap_wsrm_request_acks(soap, sequence, NULL, "urn:scores/score"))
      return soap_print_fault(soap, stderr), 2;
    while (soap_call_m__score(soap, soap_wsrm_to(sequence), "urn:scores/score", number, &unused)
        && soap->error != SOAP_NO_TAG && soap_wsrm_check_retry(soap, sequence) == 0)
      sleep(1);
    printf("%d\n", number);
    fflush(stdout);
  }
  if (soap_wsrm_resend(soap, sequence, 0, 0)) /* what is not acknowledged */
    return soap_print_fault(soap, stderr), 4;
  if (soap_wsrm_close(soap, sequence, NULL) || soap_wsrm_terminate(soap, sequence, NULL))
    return soap_print_fault(soap, stderr), 3;
  printf("terminated\n");
  return 0;
}
"""


def build(directory: Path) -> Path:
    (directory / "scores.h").write_text(SERVICE)
    (directory / "main.c").write_text(PROGRAM)
    generate = ["soapcpp2", "-acCxL", f"-I{GSOAP}/import:{GSOAP}", "scores.h"]
    subprocess.run(generate, cwd=directory, check=True, capture_output=True)
    parts = [GSOAP / "plugin" / name for name in ("wsrmapi.c", "wsaapi.c", "threads.c")]
    includes = [f"-I{path}" for path in (directory, GSOAP, GSOAP / "plugin")]
    sources = ["main.c", "soapC.c", "soapClient.c", *parts, GSOAP / "custom" / "duration.c"]
    libraries = ["-lgsoap", "-lpthread"]
    compile = ["cc", "-w", *includes, *sources, "-o", "client", *libraries]
    subprocess.run(compile, cwd=directory, check=True, capture_output=True)
    return directory / "client"


def can_build() -> bool:
    tools = all(map(shutil.which, ("soapcpp2", "cc")))
    return tools and (GSOAP / "plugin" / "wsrmapi.c").exists()


@pytest.mark.sweep
@pytest.mark.skipif(not can_build(), reason="gsoap and a C compiler are not installed")
def test_gsoap_delivers_once_and_in_order_though_the_archive_is_killed(tmp_path: Path) -> None:
    many, killed_after = 12, 5
    arguments = ["archive", "--topic", "/soccer", "--store", f"sqlite:///{tmp_path}/events.db"]

    async def archived(at: str) -> list[str]:
        async with (
            Node(bootstrap=[at]) as node,
            node.subscribe("/soccer", durable="check", since="beginning") as events,
        ):
            return [(await anext(events)).data for _ in range(many)]

    with camcast(*arguments, "--listen", "127.0.0.1:0", "--wsrm", "127.0.0.1:0") as archive:
        line(archive)
        door = line(archive).rpartition(" ")[2]
        command = [build(tmp_path), f"http://{door}/topics/soccer", str(many)]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert client.stdout is not None
        try:
            for number in range(1, killed_after + 1):
                assert client.stdout.readline() == f"{number}\n"
            archive.kill()
            archive.wait()
            with camcast(*arguments, "--listen", "127.0.0.1:0", "--wsrm", door) as again:
                at = line(again).rpartition(" ")[2]
                assert client.stdout.read().splitlines()[-1] == "terminated"
                assert client.wait() == 0
                found = loops.run(asyncio.wait_for(archived(at), 30))
        finally:
            client.kill()
            client.wait()
    numbers = [int(one.split("<number>")[1].split("<")[0]) for one in found]
    assert numbers == list(range(1, many + 1))
