#include "server/main/etcd_flags.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rdma/auth/secret_file.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {
namespace {

/// Returns the error of a flag's file.
absl::Status FaultOfFile(const char* flag, const std::string& path, const absl::Status& why) {
  const bool is_of_flag = !absl::IsPermissionDenied(why) && !absl::IsResourceExhausted(why);
  return absl::Status(is_of_flag ? absl::StatusCode::kInvalidArgument : why.code(),
                      absl::StrCat(flag, "=", path, ": ", why.message()));
}

}  // namespace

command_line::Option AddEtcdFlags(command_line::Command command, EtcdFlags* flags,
                                  const std::string& purpose) {
  const command_line::Option etcd =
      command
          .Add("--etcd", flags->store.endpoints,
               "Address of etcd, as http://HOST:PORT or https://HOST:PORT; may be repeated. " + purpose)
          .Check([](const std::string& text) { return std::string(CheckEndpoint(text).message()); })
          .TypeName("URL");
  command.Add("--etcd_user", flags->store.user, "The user of etcd, with --etcd_password_file")
      .TypeName("NAME")
      .Needs(etcd);
  command
      .Add("--etcd_password_file", flags->password_file,
           "The password of --etcd_user: the first line of a file that others cannot read")
      .TypeName("FILE")
      .Needs(etcd);
  command
      .Add("--etcd_ca", flags->store.ca_file,
           "For https addresses, the authorities of etcd's certificate (PEM); without, those of the system")
      .TypeName("FILE")
      .Needs(etcd);
  return etcd;
}

absl::Status CheckEtcdFlags(const EtcdFlags& flags) {
  if (flags.store.user.empty() == flags.password_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--etcd_user, --etcd_password_file: they go together; give both, or none");
}

absl::Status ReadEtcdFiles(EtcdFlags* flags) {
  const std::string& ca = flags->store.ca_file;
  if (!ca.empty() && ::access(ca.c_str(), R_OK) != 0) {
    const int error = errno;
    const std::string why = absl::StrCat(std::strerror(error), "; name a file of certificates (PEM)");
    return FaultOfFile("--etcd_ca", ca,
                       error == EACCES ? absl::PermissionDeniedError(why) : absl::InvalidArgumentError(why));
  }
  if (flags->password_file.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> text = rdma::ReadSecretFile(flags->password_file);
  if (!text.ok()) return FaultOfFile("--etcd_password_file", flags->password_file, text.status());
  flags->store.password = text->substr(0, text->find('\n'));
  if (!flags->store.password.empty()) return absl::OkStatus();
  return FaultOfFile("--etcd_password_file", flags->password_file,
                     absl::InvalidArgumentError("its first line is empty; write the password there"));
}

std::string FaultOfShard(const std::string& text) {
  if (IdentityIn(text)) return "";
  return "'" + text +
         "' is no CLUSTER/NAME, as in 9f86d081884c7d65/0: the 16 digits of the cluster, as of a topology "
         "file, and the name of the shard there";
}

}  // namespace remora
