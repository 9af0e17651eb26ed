#include "worker/collectives/transport/meeting/rank_process_for_testing.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "worker/collectives/transport/meeting/meeting_point.h"

namespace muster {
namespace {

void Say(const std::string& line) {
  const std::string text = line + "\n";
  (void)!write(kRankSocket, text.data(), text.size());
}

// The rank's own thread.
void DoWork(Transport& transport, bool exchange, std::atomic<int64_t>& count) {
  const int size = transport.size();
  const int next = (transport.rank() + 1) % size, before = (transport.rank() + size - 1) % size;
  std::vector<std::byte> sent(5000), got(5000);
  CallState state;
  while (transport.health().ok()) {
    state.sequence = static_cast<uint64_t>(++count);
    state.inside = 1;
    transport.Publish(state);
    if (exchange) {
      (void)Exchange(transport, next, sent, before, absl::MakeSpan(got));
    } else {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  const absl::Status status = transport.health();
  Say(absl::StrCat("FAILED ", absl::StatusCodeToString(status.code()), " ", status.message()));
}

// Returns whether every thread of a process is stopped, or the process is gone.
bool IsStopped(pid_t process) {
  const std::string tasks = absl::StrCat("/proc/", process, "/task");
  DIR* const folder = opendir(tasks.c_str());
  if (folder == nullptr) return true;
  bool stopped = true;
  for (const dirent* entry = readdir(folder); entry != nullptr; entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    std::string text;
    std::getline(std::ifstream(absl::StrCat(tasks, "/", entry->d_name, "/stat")), text);
    // The state follows the name, which is in brackets.
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) continue;
    stopped = stopped && text.size() > name_end + 2 && text[name_end + 2] == 'T';
  }
  closedir(folder);
  return stopped;
}

// Sockets that are shared with another process are broken there, too.
void BreakSharedConnections() {
  DIR* const folder = opendir("/proc/self/fd");
  std::vector<int> descriptors;
  for (const dirent* entry = readdir(folder); entry != nullptr; entry = readdir(folder)) {
    descriptors.push_back(std::atoi(entry->d_name));
  }
  closedir(folder);
  for (const int descriptor : descriptors) {
    sockaddr_storage peer;
    socklen_t length = sizeof(peer);
    if (descriptor <= kRankSocket ||
        getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) != 0) {
      continue;
    }
    // TCP: a reset, at both ends.
    sockaddr nobody = {};
    nobody.sa_family = AF_UNSPEC;
    if (peer.ss_family == AF_UNIX || connect(descriptor, &nobody, sizeof(nobody)) != 0) {
      shutdown(descriptor, SHUT_RDWR);
    }
  }
}

}  // namespace

void BreakConnections() {
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child == 0) {
    kill(self, SIGSTOP);
    while (!IsStopped(self)) sched_yield();
    BreakSharedConnections();
    kill(self, SIGCONT);
    _exit(0);
  }
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

int RunRankProcess(const std::string& wiring_number, const std::string& rank_number) {
  const auto wiring = static_cast<Wiring>(std::atoi(wiring_number.c_str()));
  auto point = MeetingPoint::Create(OptionsFor(wiring, std::atoi(rank_number.c_str()))).value();
  Say("ADDRESS " + absl::BytesToHexString(point->address()));
  std::unique_ptr<HostTransport> transport;
  std::thread worker;
  std::atomic<int64_t> count = 0;
  std::string input;
  char buffer[4096];
  while (true) {
    const ssize_t bytes = read(kRankSocket, buffer, sizeof(buffer));
    // As a crash: no destructor runs.
    if (bytes <= 0) _exit(0);
    input.append(buffer, static_cast<size_t>(bytes));
    for (size_t end; (end = input.find('\n')) != std::string::npos; input.erase(0, end + 1)) {
      std::istringstream line(input.substr(0, end));
      std::string word;
      line >> word;
      if (word == "GROUP") {
        CollectiveEndpoint::Group group;
        group.name = "test";
        group.round = 1;
        group.secret = "secret";
        line >> group.rank;
        for (std::string hex; line >> hex;) group.addresses.push_back(absl::HexStringToBytes(hex));
        auto met = point->Meet(group, absl::Seconds(30));
        if (!met.ok()) {
          Say(absl::StrCat("FAILED ", met.status().ToString()));
          continue;
        }
        transport = *std::move(met);
        Say("MET");
      } else if (word == "EXCHANGE" || word == "COMPUTE") {
        worker = std::thread(
            [&, exchange = word == "EXCHANGE"] { DoWork(*transport, exchange, count); });
      } else if (word == "SURVEY") {
        std::string reply = "STATES";
        for (const RankState& state : transport->Survey(absl::Milliseconds(500))) {
          absl::StrAppend(&reply, " ", static_cast<int>(state.life));
        }
        Say(reply);
      } else if (word == "COUNT") {
        Say(absl::StrCat("COUNT ", count.load()));
      } else if (word == "RESET") {
        BreakConnections();
      } else if (word == "LEAVE") {
        transport.reset();
        Say("LEFT");
      }
    }
  }
}

RankProcess::RankProcess(Wiring wiring, int rank) {
  int sockets[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  socket_ = Descriptor(sockets[0]);
  const Descriptor childs(sockets[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, childs.get(), kRankSocket);
  posix_spawn_file_actions_addclosefrom_np(&actions, kRankSocket + 1);
  std::string program = "/proc/self/exe", argument = kRankArgument;
  std::string first = absl::StrCat(static_cast<int>(wiring)), second = absl::StrCat(rank);
  char* const arguments[] = {program.data(), argument.data(), first.data(), second.data(), nullptr};
  EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
}

RankProcess::~RankProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void RankProcess::Tell(const std::string& line) {
  const std::string text = line + "\n";
  EXPECT_EQ(send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

std::string RankProcess::Await(const std::string& word) {
  while (true) {
    for (size_t end; (end = input_.find('\n')) != std::string::npos;) {
      const std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      if (line == word || absl::StartsWith(line, word + " ")) {
        return line.size() > word.size() ? line.substr(word.size() + 1) : line;
      }
    }
    char buffer[4096];
    const ssize_t got = recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (got <= 0) break;
    input_.append(buffer, static_cast<size_t>(got));
  }
  ADD_FAILURE() << "process " << pid_ << " has ended without " << word;
  return "";
}

void RankProcess::Signal(int signal) {
  EXPECT_EQ(kill(pid_, signal), 0);
  if (signal != SIGSTOP) return;
  // It runs on for a moment.
  siginfo_t info;
  EXPECT_EQ(waitid(P_PID, pid_, &info, WSTOPPED | WNOWAIT), 0);
}

std::vector<std::unique_ptr<RankProcess>> StartRanks(Wiring wiring, int size) {
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<RankProcess>(wiring, rank));
  }
  std::string addresses;
  for (auto& rank : ranks) absl::StrAppend(&addresses, " ", rank->Await("ADDRESS"));
  for (int rank = 0; rank < size; ++rank) {
    ranks[rank]->Tell(absl::StrCat("GROUP ", rank, addresses));
  }
  for (auto& rank : ranks) rank->Await("MET");
  return ranks;
}

}  // namespace muster
