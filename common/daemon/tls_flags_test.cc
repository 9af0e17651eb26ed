#include "common/daemon/tls_flags.h"

#include <CLI/CLI.hpp>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

class TlsFlagsTest : public ::testing::Test {
 protected:
  TlsFlagsTest() { AddTlsFlags(app_, files_); }

  CLI::App app_;
  TlsFiles files_;
};

TEST_F(TlsFlagsTest, ThoseThatAreGivenAreHandedOn) {
  const char* const arguments[] = {
      "program", "--tls-authority", "/a.pem", "--tls-certificate=/c.pem", "--tls-key", "/k.pem"};
  app_.parse(6, arguments);
  EXPECT_EQ(TlsArguments(files_),
            std::vector<std::string>(
                {"--tls-authority=/a.pem", "--tls-certificate=/c.pem", "--tls-key=/k.pem"}));
}

TEST_F(TlsFlagsTest, NoneMeanPlainText) {
  const char* const arguments[] = {"program"};
  app_.parse(1, arguments);
  EXPECT_TRUE(files_.None());
  EXPECT_TRUE(TlsArguments(files_).empty());
}

TEST_F(TlsFlagsTest, AnEmptyPathIsRefused) {
  for (const char* const flag : {"--tls-authority", "--tls-certificate", "--tls-key"}) {
    const char* const apart[] = {"program", flag, ""};
    EXPECT_THROW(app_.parse(3, apart), CLI::ParseError) << flag;
    const std::string joined = std::string(flag) + "=";
    const char* const together[] = {"program", joined.c_str()};
    EXPECT_THROW(app_.parse(2, together), CLI::ParseError) << joined;
  }
}

}  // namespace
}  // namespace muster
