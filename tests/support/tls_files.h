// Certificates of a test, made by the openssl program.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "rdma/tls.h"
#include "store/base/check.h"

namespace remora {

/// A folder with an authority, whose certificate is "ca.crt", and with certificates that it signs.
class TlsFolder {
 public:
  explicit TlsFolder(const std::string& authority = "test authority") {
    std::string pattern = std::filesystem::temp_directory_path() / "remora-tls-XXXXXX";
    REMORA_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
    Run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj '/CN=" + authority +
        "' -keyout ca.key -out ca.crt");
  }

  ~TlsFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TlsFolder(const TlsFolder&) = delete;
  TlsFolder& operator=(const TlsFolder&) = delete;

  /// Signs a certificate NAME.crt with the key NAME.key. `names`: as subjectAltName of x509v3_config(5).
  void Sign(const std::string& name, const std::string& names) const {
    std::ofstream(path() + "/" + name + ".ext") << "subjectAltName=" << names << "\n";
    Run("req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=remora -keyout " + name +
        ".key -out " + name + ".csr");
    Run("x509 -req -in " + name + ".csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 1 -extfile " + name +
        ".ext -out " + name + ".crt");
  }

  /// Signs a certificate that was valid until the year 2020.
  void SignExpired(const std::string& name, const std::string& names) const {
    Sign(name, names);
    std::ofstream(path() + "/index.txt") << "";
    std::ofstream(path() + "/ca.cnf")
        << "[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\nserial=serials\nnew_certs_dir=.\n"
           "default_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n";
    Run("ca -batch -config ca.cnf -cert ca.crt -keyfile ca.key -create_serial -notext -extfile " + name +
        ".ext -startdate 20190101000000Z -enddate 20200101000000Z -in " + name + ".csr -out " + name +
        ".crt");
  }

  /// Runs the openssl program in the folder.
  void Run(const std::string& arguments) const {
    const std::string command =
        "cd '" + path() + "' && umask 077 && openssl " + arguments + " 2>>openssl.log";
    REMORA_CHECK(std::system(command.c_str()) == 0);
  }

  const std::string& path() const { return path_; }
  std::string ca() const { return path() + "/ca.crt"; }
  std::string cert(const std::string& name) const { return path() + "/" + name + ".crt"; }
  std::string key(const std::string& name) const { return path() + "/" + name + ".key"; }
  /// The files of a server, or of a client that shows a certificate and accepts those of the authority.
  rdma::TlsFiles Files(const std::string& name, bool with_ca) const {
    return {.ca = with_ca ? ca() : "", .cert = cert(name), .key = key(name)};
  }

 private:
  std::string path_;
};

}  // namespace remora
