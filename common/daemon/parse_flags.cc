#include "common/daemon/parse_flags.h"

#include <cstdlib>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "common/base/version.h"
#include "common/daemon/meant_word.h"

namespace muster {
namespace {

constexpr int kUsageError = 2;

}  // namespace

std::optional<int> ParseFlags(CLI::App& app, int argc, const char* const* argv) {
  app.set_version_flag("--version", VersionLine(app.get_name()),
                       "Print release, commit and build, and exit.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    // The library's own codes are of three figures, one for each kind of error.
    if (app.exit(end) == EXIT_SUCCESS) return EXIT_SUCCESS;
    const std::string meant = MeantWord(app);
    if (!meant.empty()) std::cerr << "Did you mean " << meant << "?\n";
    return kUsageError;
  }
  return std::nullopt;
}

}  // namespace muster
