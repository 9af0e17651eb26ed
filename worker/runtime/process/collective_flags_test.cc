#include "worker/runtime/process/collective_flags.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/certificates_for_testing.h"

namespace muster {
namespace {

TEST(CollectiveFlagsTest, EncryptedCredentialsEncryptCollectivesToo) {
  CertificatesForTesting cluster(::testing::TempDir(), "cluster");
  const auto encrypted = RpcCredentials::Of(cluster.Issue("worker"), TlsUse::kCallsAndServes);
  ASSERT_TRUE(encrypted.ok()) << encrypted.status();
  EXPECT_TRUE(EndpointOptions({}, *encrypted).tls);
  EXPECT_FALSE(EndpointOptions({}, RpcCredentials::PlainText()).tls);
  EXPECT_TRUE(EndpointOptions({.tls = true}, RpcCredentials::PlainText()).tls)
      << "its keys come from the group's secret";
}

TEST(CollectiveFlagsTest, TheProcessOfATaskIsGivenTheSame) {
  for (const bool tls : {false, true}) {
    CLI::App app;
    CollectiveFlags read;
    AddCollectiveFlags(app, read);
    std::vector<std::string> arguments = Arguments({.host = "10.0.0.7",
                                                    .ports = "7100-7103",
                                                    .advertised_host = "192.0.2.7",
                                                    .transport = "tcp",
                                                    .tls = tls,
                                                    .connections = 4});
    std::reverse(arguments.begin(), arguments.end());  // As parse takes them.
    app.parse(arguments);
    const HostEndpointOptions options = EndpointOptions(read, RpcCredentials::PlainText());
    EXPECT_EQ(options.host, "10.0.0.7");
    EXPECT_EQ(options.first_port, 7100);
    EXPECT_EQ(options.last_port, 7103);
    EXPECT_EQ(options.advertised_host, "192.0.2.7");
    EXPECT_FALSE(options.shared_memory);
    EXPECT_EQ(options.tls, tls);
    EXPECT_EQ(options.connections, 4);
  }
  EXPECT_TRUE(EndpointOptions({}, RpcCredentials::PlainText()).shared_memory);
  EXPECT_EQ(EndpointOptions({}, RpcCredentials::PlainText()).connections, 1);
}

TEST(CollectiveFlagsTest, ANumberOfConnectionsThatMakesNoSenseIsRefused) {
  for (const char* const number : {"0", "17", "-1", "many"}) {
    CLI::App app;
    CollectiveFlags flags;
    AddCollectiveFlags(app, flags);
    std::vector<std::string> arguments = {absl::StrCat("--collectives-connections=", number)};
    EXPECT_THROW(app.parse(arguments), CLI::ParseError) << number;
  }
}

TEST(CollectiveFlagsTest, PortsThatMakeNoSenseAreRefused) {
  for (const char* const ports : {"7100", "7103-7100", "0-7", "7100-65536", "7100-", "a-b"}) {
    CLI::App app;
    CollectiveFlags flags;
    AddCollectiveFlags(app, flags);
    std::vector<std::string> arguments = {absl::StrCat("--collectives-ports=", ports)};
    EXPECT_THROW(app.parse(arguments), CLI::ParseError) << ports;
  }
}

TEST(CollectiveFlagsTest, WithoutAHostTheTaskFindsItItself) {
  for (const std::string& argument : Arguments({})) {
    EXPECT_EQ(argument.find("--collectives-host"), std::string::npos) << argument;
  }
  // A coordinator on this machine says nothing of how others reach it, but its name may.
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof(name) - 1), 0);
  EXPECT_EQ(DefaultCollectivesHost("127.0.0.1:7000"), name);
  EXPECT_EQ(DefaultCollectivesHost("no such host:7000"), name);
}

}  // namespace
}  // namespace muster
