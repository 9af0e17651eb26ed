#ifndef MUSTER_CLIENT_COMMANDS_COMMANDS_FIXTURE_H_
#define MUSTER_CLIENT_COMMANDS_COMMANDS_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/hostile_coordinator_for_testing.h"
#include "client/commands/shown_for_testing.h"
#include "gtest/gtest.h"

namespace muster {

// A coordinator whose every text is hostile, and the commands that ask it.
class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() {
    // This is as `muster evaluate` needs it: threads that gRPC starts are not the ones that a
    // signal ends.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&coordinator_);
    builder.RegisterService(&examinations_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  // Runs a command line against the coordinator; defined in commands_test.cc.
  Shown Run(const std::vector<std::string>& words);

  HostileCoordinator coordinator_;
  HostileExaminations examinations_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// Returns the values that a text of JSON holds, one after another.
inline std::vector<nlohmann::json> Values(const std::string& text) {
  std::vector<nlohmann::json> values;
  std::istringstream in(text);
  try {
    while (in >> std::ws && in.peek() != std::istringstream::traits_type::eof()) {
      in >> values.emplace_back();
    }
  } catch (const nlohmann::json::exception& error) {
    ADD_FAILURE() << error.what() << " in:\n" << text;
  }
  return values;
}

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_COMMANDS_FIXTURE_H_
