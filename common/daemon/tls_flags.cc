#include "common/daemon/tls_flags.h"

#include <CLI/CLI.hpp>
#include <filesystem>

namespace muster {
namespace {

constexpr char kAuthority[] = "--tls-authority";
constexpr char kCertificate[] = "--tls-certificate";
constexpr char kKey[] = "--tls-key";

// An unset variable of a script must not turn encryption off.
std::string RefuseEmpty(const std::string& path) {
  return path.empty() ? "the path is empty; name a file, or for plain text leave all three --tls-* "
                        "options out"
                      : "";
}

}  // namespace

void AddTlsFlags(CLI::App& app, TlsFiles& files) {
  app.add_option(kAuthority, files.authority,
                 "PEM file of the cluster's certificate authority. Give all three --tls-* flags to "
                 "encrypt everything that this process sends; whoever it talks to needs a "
                 "certificate of the same authority. Default: plain text.")
      ->check(RefuseEmpty);
  app.add_option(kCertificate, files.certificate,
                 "PEM file of this process's certificate. A daemon's certificate has to name the "
                 "host by which others reach the daemon.")
      ->check(RefuseEmpty);
  app.add_option(kKey, files.key, "PEM file of the certificate's private key.")->check(RefuseEmpty);
}

std::vector<std::string> TlsArguments(const TlsFiles& files) {
  std::vector<std::string> arguments;
  const auto add = [&arguments](const std::string& flag, const std::string& path) {
    if (!path.empty()) arguments.push_back(flag + "=" + std::filesystem::absolute(path).string());
  };
  add(kAuthority, files.authority);
  add(kCertificate, files.certificate);
  add(kKey, files.key);
  return arguments;
}

}  // namespace muster
