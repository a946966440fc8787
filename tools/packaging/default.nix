# SPDX-License-Identifier: GPL-2.0
#
# For NixOS: the modules for a kernel, the command and the library.
#
#   boot.extraModulePackages = [
#     (config.boot.kernelPackages.callPackage ./tools/packaging/default.nix { })
#   ];
#
# Run: both phases, as nix-instantiate of Debian 12 prints them for a kernel of Debian, in bash.
# Not run: nix-build, because Debian has no nixpkgs.
{ lib, stdenv, kernel, liburing }:

let
  build = "make -C ${kernel.dev}/lib/modules/${kernel.modDirVersion}/build M=$PWD";
in
stdenv.mkDerivation {
  pname = "twheel";
  version = "0.1.0";
  src = lib.cleanSource ../..;
  nativeBuildInputs = kernel.moduleBuildDependencies;
  buildInputs = [ liburing ];
  postPatch = "patchShebangs tools";
  buildPhase = "${build} modules";
  installPhase = ''
    ${build} INSTALL_MOD_PATH=$out DEPMOD=true modules_install
    make -C tools O=$TMPDIR/o STATIC= prefix=$out install
  '';
  meta = {
    description = "Timing wheel in the kernel for very many timeouts, and its library";
    homepage = "https://example.org/twheel";
    license = [ lib.licenses.gpl2Only lib.licenses.mit ];
    platforms = lib.platforms.linux;
  };
}
