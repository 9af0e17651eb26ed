#include "tests/harness/muster_command.h"

#include <stdio.h>
#include <sys/wait.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster {

CommandResult Muster(const std::string& arguments, const std::string& environment) {
  static const std::string home = ::testing::TempDir() + "/home";
  const std::string command =
      absl::StrCat("HOME=", home, " ", environment, " ",
                   std::filesystem::absolute("client/muster").string(), " ", arguments, " 2>&1");
  CommandResult result;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  size_t n;
  while ((n = fread(buffer, 1, sizeof(buffer), pipe)) > 0) result.output.append(buffer, n);
  result.exit_code = WEXITSTATUS(pclose(pipe));
  return result;
}

}  // namespace muster
