#include "common/daemon/parse_flags.h"

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/base/version.h"
#include "common/text/nearest_name.h"

namespace muster {
namespace {

constexpr int kUsageError = 2;

// Returns the flag that the first unknown one probably meant; nothing if none is near.
std::optional<std::string> MeantFlag(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const std::string& word : app.remaining()) {
    if (word.substr(0, 2) == "--") return NearestName(word.substr(0, word.find('=')), flags);
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> ParseFlags(CLI::App& app, int argc, const char* const* argv) {
  app.set_version_flag("--version", VersionLine(app.get_name()),
                       "Print release, commit and build, and exit.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    // The library's own codes have three digits, one code for each kind of error.
    if (app.exit(end) == EXIT_SUCCESS) return EXIT_SUCCESS;
    const std::optional<std::string> meant = MeantFlag(app);
    if (meant.has_value()) std::cerr << "Did you mean " << *meant << "?\n";
    return kUsageError;
  }
  return std::nullopt;
}

}  // namespace muster
