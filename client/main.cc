// `muster`: starts clusters on this machine, submits jobs and shows what becomes of them.

#include <string>
#include <vector>

#include "client/cluster/session.h"
#include "client/command_line.h"
#include "common/daemon/daemon.h"

int main(int argc, char** argv) {
  muster::IgnoreFileSizeSignal();
  muster::Session session;
  return muster::RunCommandLine(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
                                session);
}
