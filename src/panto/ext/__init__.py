"""Rooms that lean on a third party, one a file.

Law: each imports its third party inside its functions, so that importing the module costs nothing and a missing
package is an error that says how to install it.
"""
