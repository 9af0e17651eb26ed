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
                 "PEM file of the cluster's certificate authority. With the two below, everything "
                 "that leaves this process is under TLS, and every process at the other end needs "
                 "a certificate of the same authority. Without: plain text.")
      ->check(RefuseEmpty);
  app.add_option(kCertificate, files.certificate,
                 "PEM file of this process's certificate; a daemon's names the host under which "
                 "others reach it.")
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
